"""Public names and their signatures change on purpose only: the list is in public_names.txt."""

from tests.public_names import LIST, public_names

COMMAND = "python -m tests.public_names --write"


def test_no_public_name_or_signature_is_lost():
    known = set(LIST.read_text(encoding="utf-8").splitlines())
    lost = sorted(known - set(public_names()))
    assert not lost, f"missing or changed: {lost}; if it is meant, run `{COMMAND}`"


def test_new_public_names_are_in_the_list():
    known = set(LIST.read_text(encoding="utf-8").splitlines())
    new = sorted(set(public_names()) - known)
    assert not new, f"new: {new}; run `{COMMAND}` and commit the list with them"
