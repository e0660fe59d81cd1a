"""What the Hugging Face Trainer refuses among its arguments: names that it does not have, values of another kind,
arguments that exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.catalog.training_arguments import TrainingArgument, training_arguments
from dtlint.frameworks import Member
from dtlint.frameworks.arguments import meant, texts
from dtlint.frameworks.flag_list import Flags, switch
from dtlint.frameworks.options import Option, is_number, whole
from dtlint.frameworks.transformers.fsdp import WORDS, is_fsdp, is_preset
from dtlint.languages.traced import setting_of
from dtlint.value import Setting, Value, written

SHORTEST = 12
"""Letters of a name from which a beginning of one is taken for it, as argparse takes it."""

_TRUTHS = frozenset(("yes", "true", "t", "y", "1", "no", "false", "f", "n", "0"))
"""What stands for true or false (transformers 5.24.0 hf_argparser.py, string_to_bool)."""
_KINDS = {"int": "a whole number", "float": "a number", "flag": "true or false"}


def full_names(flags: Flags) -> Flags:
    """The flags with each name written out that is the beginning of one argument alone."""
    return flags._replace(flags={_full(name): option for name, option in flags.flags.items()})


def without_beginnings(found: Mapping[str, tuple[Member, ...]]) -> Mapping[str, tuple[Member, ...]]:
    """The collections without arguments that are the beginning of one alone, which argparse takes for it."""
    strange = tuple(each for each in found.get("trainer.strange", ()) if not _begins_one(each))
    return {**found, "trainer.strange": strange}


def _begins_one(member: Member) -> bool:
    told = member.fields["name"]
    name = str(told.value).replace("-", "_") if isinstance(told, Value) else ""
    return len([each for each in training_arguments().values() if each.name.startswith(name) and not each.last]) == 1


def faults(flags: Flags) -> Mapping[str, tuple[Member, ...]]:
    """Collections about the arguments.

    config.invalid and config.conflicts: what every release refuses. For whoever knows the program's parser:
    trainer.strange (arguments that the Trainer does not have: `name`, and as in config.unknown), trainer.invalid
    (values that its parser does not take: `name`, and as in config.invalid), trainer.not_at_stage_3 (a
    batch that is looked for). For whoever knows what carries out the plan: trainer.unsharded (how to shard, where
    nothing asks for it; as in config.inert).
    """
    found = {
        "config.invalid": (*_both_formats(flags), *_sharding_words(flags)),
        "config.conflicts": tuple(_two_frameworks(flags)),
        "trainer.strange": tuple(_strange(flags)),
        "trainer.invalid": tuple(_invalid(flags)),
        "trainer.not_at_stage_3": tuple(_finds_batch(flags)),
        "trainer.unsharded": tuple(_nothing_to_shard(flags)),
    }
    return {name: members for name, members in found.items() if members}


def _full(name: str) -> str:
    if len(name) < SHORTEST or _field(name) is not None:
        return name
    near = [each for each in training_arguments() if each.startswith(name.replace("-", "_"))]
    return near[0].replace("_", "-") if len(near) == 1 else name


def _field(name: str) -> TrainingArgument | None:
    return training_arguments().get(name.replace("-", "_"))


def _strange(flags: Flags) -> Iterator[Member]:
    known = [name.replace("_", "-") for name in training_arguments()]
    for name, option in flags.flags.items():
        if _field(name.removeprefix("no-")) is not None:
            continue
        near = meant(name, known)
        suggestion = f"--{near.replace('-', '_')}" if near is not None else ""
        fields = texts(option.place, key=option.spelled, section="the Trainer", suggestion=suggestion)
        yield Member(option.place, {**fields, **texts(option.place, name=name, effect="refused", belongs="")})


def _invalid(flags: Flags) -> Iterator[Member]:
    for name, option in flags.flags.items():
        field = _field(name)
        text = option.value.text if option.value is not None else None
        expected = expected_of(field, text) if field is not None and text is not None else ""
        if name == "fsdp" and text is not None and text.lower() == "true":
            expected = "words such as full_shard, or no value at all"
        if expected:
            yield _wrong(option, expected, name=name)


def expected_of(field: TrainingArgument, text: str) -> str:
    """What a field takes, "" if it takes the text that a command line gives it."""
    if field.words:
        return "" if text in field.words else "one of " + ", ".join(field.words)
    fits = {
        "int": lambda: whole(text) is not None,
        "float": lambda: is_number(text),
        "flag": lambda: text.lower() in _TRUTHS,
    }
    return "" if field.takes not in fits or fits[field.takes]() else _KINDS[field.takes]


def _both_formats(flags: Flags) -> Iterator[Member]:
    options = [flags.flags.get(name) for name in ("bf16", "fp16")]
    given = [option for option in options if option is not None and _is_on(option)]
    if len(given) == 2:
        member = _wrong(given[1], "false beside bf16")
        yield member._replace(related=((given[0].place, "on here"),))


def _is_on(option: Option) -> bool:
    found = switch(option)
    return isinstance(found, Value) and found.value is True


def _sharding_words(flags: Flags) -> Iterator[Member]:
    """Words of --fsdp that stand for nothing."""
    option = flags.flags.get("fsdp")
    if option is None or not is_fsdp(flags) or any(value.text is None for value in option.values):
        return
    if is_preset(option):
        return
    words = " ".join(value.text or "" for value in option.values).split()
    strange = [word for word in words if word not in WORDS and word.lower() not in _TRUTHS]
    if strange:
        yield _wrong(option, "words out of " + ", ".join(WORDS) + ", with blanks between")


def _nothing_to_shard(flags: Flags) -> Iterator[Member]:
    """--fsdp_config without --fsdp: the Trainer warns and wraps the model in DDP (transformers 5.24.0
    training_args.py, _process_fsdp_args). An empty --fsdp switches sharding off on purpose.
    """
    option = flags.flags.get("fsdp-config")
    if option is None or option.value is None or not option.value.text or "fsdp" in flags.flags or flags.open:
        return
    reason = "the Trainer shards only where --fsdp is given too, and every GPU keeps the whole model without it"
    fields = texts(option.place, key=option.spelled, section="the Trainer", reason=reason, matters="yes")
    yield Member(option.place, {**fields, "others": written(0, option.place)})


def _two_frameworks(flags: Flags) -> Iterator[Member]:
    deepspeed, fsdp = flags.flags.get("deepspeed"), flags.flags.get("fsdp")
    if deepspeed is None or deepspeed.value is None or deepspeed.value.text in (None, "") or fsdp is None:
        return
    if not is_fsdp(flags) or any(value.text is None for value in fsdp.values):
        return
    fields = texts(
        fsdp.place, setting="framework", name=fsdp.spelled, winner_name=deepspeed.spelled, effect="exclusive"
    )
    told = {"value": written(True, fsdp.place), "winner": setting_of(deepspeed.value)}
    yield Member(fsdp.place, {**fields, **told}, ((deepspeed.place, "given beside it"),))


def _finds_batch(flags: Flags) -> Iterator[Member]:
    option = flags.flags.get("auto-find-batch-size")
    if option is not None and _is_on(option):
        yield _wrong(option, "false under ZeRO-3")


def _wrong(option: Option, expected: str, **more: str) -> Member:
    told: Setting = setting_of(option.value) if option.value is not None else written(True, option.place)
    fields = texts(option.place, key=option.spelled, section="", expected=expected, effect="refused", **more)
    return Member(option.place, {**fields, "value": told})
