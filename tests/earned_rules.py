"""The rules as if each had earned its severity in whole repositories: for tests of what else lowers it there."""

from dtlint.rulebook.load import built_in

EARNED = [rule._replace(judged=None) for rule in built_in()]
