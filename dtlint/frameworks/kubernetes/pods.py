"""A pod's containers: the words that they run, their environment, their GPUs, and the machine that they ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.cards import card_claims, instance_claims
from dtlint.frameworks.jobs import Job, count, items, string, texts
from dtlint.languages.json_tree import Node, member
from dtlint.languages.shell.quoting import quoted
from dtlint.languages.shell.text import Text, cut, flat, known, through, unknown
from dtlint.languages.traced import Word
from dtlint.languages.yaml_text import text_of
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Setting, Unknown, Value, written

Find = Callable[[str, str], "Node | None"]
"""Gives a manifest of the tree by its kind and name."""

GPU_RESOURCES = (
    "nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "habana.ai/gaudi", "aws.amazon.com/neuroncore",
    "aws.amazon.com/neuron", "aws.amazon.com/neurondevice",
)  # fmt: skip
"""Names under which a container asks for accelerators."""

CHIPS = frozenset(("aws.amazon.com/neuron", "aws.amazon.com/neurondevice", "gpu.intel.com/xe"))
"""Those that count chips of which each may be several devices of a program: a Trainium or Inferentia chip has 2 to 8
NeuronCores (AWS Neuron, "Kubernetes environment setup" and "NeuronCore architecture"), an Intel GPU one or two tiles.
"""

_RDMA = ("rdma/", "mellanox.com/", "nvidia.com/hostdev", "nvidia.com/sriov-rdma")
"""How the resources begin that the device plugins of Mellanox and NVIDIA offer for InfiniBand and RoCE."""

GPU_LABELS = (
    "cloud.google.com/gke-accelerator", "nvidia.com/gpu.product", "gpu.nvidia.com/class", "gpu.nvidia.com/model",
    "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name", "accelerator", "gpu-type",
)  # fmt: skip
"""Labels of nodes whose value names the GPU."""

INSTANCE_LABELS = (
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "cloud.google.com/machine-family",
)  # fmt: skip
"""Labels of nodes whose value names a cloud's machine."""

SHELLS = frozenset(("bash", "sh", "dash"))
_OPTION = re.compile(r"-[a-zA-Z]*|\+[a-zA-Z]*|--?\w+")
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})")
_RANK_FIELDS = ("job-completion-index", "job-index", "job-global-index", "pod-index", "replica-index")
"""What the fields of a pod contain that number it among its like."""


class Pod:
    """A pod template, with what holds for all its containers."""

    __slots__ = ("find", "spec")

    def __init__(self, template: Node, find: Find) -> None:
        self.spec = member(template, "spec") or template
        self.find = find

    @property
    def containers(self) -> tuple[Node, ...]:
        """The containers that run side by side."""
        return items(self.spec, "containers")


class Group(NamedTuple):
    """Pods of one template, and how many of them there are."""

    name: str
    pod: Pod
    pods: Setting


def reading_of(layer: str, place: Span, group: Group, nodes: Setting) -> Reading:
    """The machines of a group of pods."""
    claims = (*nodes_claim(nodes, "replicas"), *machine_claims(group.pod, gpus_of(group.pod)))
    return Reading(layer, place, claims, collections=adapters_of(group.pod))


def adapters_of(pod: Pod) -> Mapping[str, tuple[Member, ...]]:
    """The collection `cluster.adapters`: what the containers of a pod ask for to reach other nodes by RDMA (`name`)."""
    limits = (member(container, "resources", "limits") for container in pod.containers)
    asked = [found for node in limits if node is not None for found in node.entries if found.key.startswith(_RDMA)]
    members = tuple(Member(each.node.span, {"name": written(each.key, each.node.span)}) for each in asked)
    return {"cluster.adapters": members} if members else {}


def gpus_of(pod: Pod) -> Setting | None:
    """The GPUs that the containers of a pod ask for, None where none does."""
    asked = [found for container in pod.containers if (found := gpus_asked(container)) is not None]
    return next((found for found in asked if not isinstance(found, Value) or found.value), None)


def gpus_asked(container: Node) -> Setting | None:
    """The GPUs of one container; of a request and a limit the limit, which they must equal."""
    for kind in ("limits", "requests"):
        for resource in GPU_RESOURCES:
            node = member(container, "resources", kind, resource)
            if node is not None:
                return _devices(count(node, None, node.span, "Kubernetes"), resource)
    return None


def _devices(asked: Setting, resource: str) -> Setting:
    """The devices of as many of a resource, unknown where it counts chips."""
    if resource not in CHIPS or not isinstance(asked, Value) or not asked.value:
        return asked
    reason = f"{resource} counts chips, and how many devices each has the machine decides"
    return Unknown(reason, "--set cluster.gpus_per_node=N", asked.origin)


def machine_claims(pod: Pod, gpus: Setting | None) -> tuple[Claim, ...]:
    """The GPUs of a pod, and the card that its node has, by the labels that a node must have."""
    counted = () if gpus is None else (Claim("cluster.gpus_per_node", gpus, "nvidia.com/gpu"),)
    for name, word in _labels(pod):
        if name in GPU_LABELS and (claims := card_claims(word, name)):
            return (*counted, *claims)
        if name in INSTANCE_LABELS and (claims := instance_claims(word, name)):
            told = {claim.setting for claim in counted}
            return (*counted, *(claim for claim in claims if claim.setting not in told))
    return counted


def _labels(pod: Pod) -> Iterator[tuple[str, Word]]:
    """The labels that a node must have, with the one value that each may have."""
    selector = member(pod.spec, "nodeSelector")
    for found in selector.entries if selector is not None else ():
        yield found.key, Word(text_of(found.node), found.node.span)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for term in items(pod.spec, "affinity", "nodeAffinity", required, "nodeSelectorTerms"):
        for expression in items(term, "matchExpressions"):
            values = items(expression, "values")
            if string(expression, "operator") == "In" and len(values) == 1:
                yield string(expression, "key"), Word(text_of(values[0]), values[0].span)


def environment_of(container: Node, pod: Pod, injected: Mapping[str, Text]) -> dict[str, Text]:
    """The variables of a container: what the orchestrator sets, then its own, which count more, in their order."""
    found = {**_from_maps(container, pod), **injected}
    for node in items(container, "env"):
        name = string(node, "name")
        if name:
            found[name] = _value(node, name, pod, found)
    return found


def _value(node: Node, name: str, pod: Pod, before: Mapping[str, Text]) -> Text:
    value = member(node, "value")
    if value is not None:
        return expanded(text_of(value), before)
    source = member(node, "valueFrom")
    field = string(source, "fieldRef", "fieldPath")
    key = string(source, "configMapKeyRef", "key")
    stored = config_map(pod, string(source, "configMapKeyRef", "name")).get(key)
    if stored is not None:
        return stored
    means = "launch.node_rank" if any(each in field for each in _RANK_FIELDS) else ""
    why = f"{name} is told by {field}" if field else f"{name} is told by the cluster"
    return unknown(node.span, why, f"--env {name}=...", means) if source is not None else ()


def _from_maps(container: Node, pod: Pod) -> dict[str, Text]:
    """The variables of `envFrom`, as far as the ConfigMaps are among the files."""
    found: dict[str, Text] = {}
    for node in items(container, "envFrom"):
        prefix = string(node, "prefix")
        stored = config_map(pod, string(node, "configMapRef", "name"))
        found.update({prefix + name: text for name, text in stored.items()})
    return found


def config_map(pod: Pod, name: str) -> dict[str, Text]:
    """The texts of a ConfigMap of the tree by their keys."""
    data = member(pod.find("ConfigMap", name), "data") if name else None
    return {found.key: text_of(found.node) for found in data.entries} if data is not None else {}


def files_of(container: Node, pod: Pod) -> dict[str, Text]:
    """The texts that the ConfigMaps of a pod put into a container's folders, by path."""
    volumes = {string(node, "name"): node for node in items(pod.spec, "volumes")}
    found: dict[str, Text] = {}
    for mount in items(container, "volumeMounts"):
        volume = volumes.get(string(mount, "name"))
        if volume is not None:
            path, part = string(mount, "mountPath").rstrip("/"), string(mount, "subPath")
            stored = _stored(volume, pod)
            found.update({path: stored[part]} if part in stored else {f"{path}/{key}": stored[key] for key in stored})
    return found


def _stored(volume: Node, pod: Pod) -> dict[str, Text]:
    """The files of a volume that is a ConfigMap, under the names that it gives them."""
    held = member(volume, "configMap")
    stored = config_map(pod, string(held, "name")) if held is not None else {}
    chosen = items(held, "items")
    if not chosen:
        return stored
    names = {string(node, "key"): string(node, "path") for node in chosen}
    return {names[key]: text for key, text in stored.items() if key in names}


def jobs_of(pod: Pod, reading: Reading, injected: Mapping[str, Text], hosts: Text = ()) -> list[Job]:
    """What the containers of a pod run."""
    return [
        job
        for container in pod.containers
        if (job := job_of(container, pod, reading, environment_of(container, pod, injected), hosts)) is not None
    ]


def job_of(container: Node, pod: Pod, reading: Reading, variables: Mapping[str, Text], hosts: Text = ()) -> Job | None:
    """What a container runs; None where its image decides alone. Arguments without a command go to the image's own
    entry point, which is taken to run them.
    """
    words = [expanded(text, variables) for text in texts((*items(container, "command"), *items(container, "args")))]
    if not words or (known(words[0]) or "").startswith("-"):
        return None
    image = member(container, "image")
    files = (NamedFile("image", Word(text_of(image), image.span)),) if image is not None else ()
    held = files_of(container, pod)
    script, arguments = _script(words, held)
    return Job(script, reading._replace(files=files), arguments, variables, held, hosts)


def _script(words: list[Text], files: Mapping[str, Text]) -> tuple[Text, tuple[Text, ...]]:
    """The text that a shell is given, by `-c` or as one of the container's `files`, with the arguments behind it; else
    the words as one command.
    """
    shell = (known(words[0]) or "").rpartition("/")[2] in SHELLS
    given = _file_given(words, files)
    if given is not None:
        return files[known(words[given]) or ""], tuple(words[given + 1 :])
    if not shell:
        return quoted(map(_filled_in, words)), ()
    for number, word in enumerate(words[1:-1], 1):
        option = known(word) or ""
        if option.startswith("-") and not option.startswith("--") and "c" in option:
            return words[number + 1], tuple(words[number + 3 :])
        if not _is_option(option):
            break
    return quoted(words), ()


def _is_option(word: str) -> bool:
    """Whether a word is an option of a shell, or the name behind `-o`."""
    return _OPTION.fullmatch(word) is not None or word in ("pipefail", "errexit", "nounset", "xtrace")


def _file_given(words: list[Text], files: Mapping[str, Text]) -> int | None:
    """The place of the script among the words that is one of the container's files: the first, or a shell's."""
    shell = (known(words[0]) or "").rpartition("/")[2] in SHELLS
    plain = [number for number in range(int(shell), len(words)) if not _is_option(known(words[number]) or "")]
    first = plain[0] if plain else 0
    return first if plain and first < (len(words) if shell else 1) and (known(words[first]) or "") in files else None


def _filled_in(word: Text) -> Text:
    """A word that no shell reads: a `$NAME` in it is for another program (envsubst) to put something in its place."""
    characters, at = flat(word), 0
    found: list[Text] = []
    for hole in _VARIABLE.finditer(characters):
        written = cut(word, *hole.span())
        reason = f"{hole[0]} stands where no shell reads it: another program fills it in"
        found.extend((cut(word, at, hole.start()), unknown(written[0].span, reason)))
        at = hole.end()
    return tuple(piece for part in (*found, cut(word, at, len(characters))) for piece in part)


def expanded(text: Text, variables: Mapping[str, Text]) -> Text:
    """A text with the values of `$(NAME)` in it, as Kubernetes puts them; `$$` is `$`, what is not set stays."""
    characters = flat(text)
    if "$(" not in characters and "$$" not in characters:
        return text
    found: list[Text] = []
    at = 0
    for reference in _REFERENCE.finditer(characters):
        start, end = reference.span()
        found.append(cut(text, at, start))
        found.append(_referenced(text, reference, variables))
        at = end
    return tuple(piece for part in (*found, cut(text, at, len(characters))) for piece in part)


def _referenced(text: Text, reference: re.Match[str], variables: Mapping[str, Text]) -> Text:
    start, end = reference.span()
    written = cut(text, start, end)
    if reference[0] == "$$":
        return cut(text, start + 1, end) if _is_escape(reference) else written
    value = variables.get(reference[1])
    return written if value is None else through(value, written[0].span, reference[0])


def _is_escape(reference: re.Match[str]) -> bool:
    """Whether `$$` stands before what would be a reference; elsewhere (a shell's process number) it stays."""
    return reference.string.startswith("(", reference.end())


def replicas(node: Node | None, parent: Node) -> Setting:
    """How many pods of a kind run: 1 where nothing is written."""
    return count(node, 1, parent.span, "Kubernetes")


def nodes_claim(value: Setting, name: str) -> tuple[Claim, ...]:
    """The machines of a job: a pod each."""
    if isinstance(value, Value) and value.value == 0:
        return (Claim("cluster.nodes", Unknown("no pod is started yet", "--set cluster.nodes=N", value.origin), name),)
    return (Claim("cluster.nodes", value, name),)
