"""Evidence is bound to what the deciding code means, wherever it stands, and to nothing else."""

import ast
import re
import shutil
from pathlib import Path

import pytest

from strata.errors import InvalidRequest
from strata.model.loaded import OURS
from strata.rollout import basis
from strata.rollout.basis import REPLACED, ROOMS, basis_of, code_of, kept_code, recorded_basis
from strata.state.transitions import create
from tests.support.batches import spec

STRATA = Path(__file__).resolve().parents[3] / "strata"

MEANT = [
    ("spark/front/vocabulary.py", '"LessThan": "less_than"', '"LessThan": "less_than_or_equal"'),
    (
        "spark/front/ordered.py",
        "return self._if(one, other, self._false)",
        "return self._if(one, other, self._true)",
    ),
    ("spark/front/constants.py", "return REPLACEMENT not in value", "return REPLACEMENT in value"),
    ("spark/front/translate.py", "if arg.type == target:", "if arg.type != target:"),
    ("expr/functions/text.py", "[A-Za-z0-9 _/", "[.A-Za-z0-9 _/"),
    ("expr/spec.py", "if rest or not", "if not"),
    ("decide/decision.py", "fail = either(fail, both(reached, spec.fail))", "fail = fail"),
    ("stats/collect.py", "\n\n\ndef ", "\n\n\nSPARE = 1\n\n\ndef "),
    ("decide/draw.py", "if percent <= 0", "if percent < 0"),
    ("parts/part_facts.py", "KEY_BYTES", "KEY_BYTE_S"),
    ("decide/row_groups.py", "return ", "return not "),
    ("kernels/text_bounds.py", "word < low_word", "word <= low_word"),
    ("kernels/ribbon.py", "in range(len(hashes))", "in range(1, len(hashes))"),
    ("kernels/json_scan.py", "    if ", "    if not "),
    ("updates/order.py", "    return ", "    return not "),
]
LAYOUT = [
    ("decide/decision.py", "\ndef decide(", "\n# A word more.\ndef decide("),
    ("decide/decision.py", '"""The verdict:', '"""The judgement:\n\n'),
    ("decide/decision.py", "return flags[::-1]", "return (flags[::-1])  # turned around"),
    ("decide/decision.py", "NO_PROOF: Final = -1", "\n\nNO_PROOF: Final = (\n    -1\n)"),
    ("decide/decision.py", "131_072", "131072"),
    ("spark/front/ordered.py", '"""Return the stages', '"""Give the stages'),
    ("spark/front/ordered.py", '"And"', "'And'"),
    (
        "expr/spec.py",
        "    return Spec(none_of(everything(type_name)), YES)",
        "    return Spec(\n        none_of(everything(type_name)),\n        YES,\n    )",
    ),
    ("expr/spec.py", '    """Return where some value other than null is possible."""\n', ""),
    ("stats/collect.py", '"""', '"""\n\n'),
    ("decide/plan.py", "\n\n\ndef plan_read(", "\n\n\n\n\n\ndef plan_read("),
    ("parts/part_facts.py", "\n\n\n", "\n\n\n\n"),
]


def edited(folder: Path, edit: tuple[str, str, str]) -> tuple[str, str]:
    """Return the fingerprints of a file alone and of the same with one edit.

    The fingerprint of all rooms is that of each file, in order.
    """
    name, old, new = edit
    text = (STRATA / name).read_text()
    assert old in text, edit
    found = []
    for place, content in (("before", text), ("after", text.replace(old, new, 1))):
        file = folder / place / name
        file.parent.mkdir(parents=True)
        file.write_text(content)
        found.append(code_of(folder / place))
    return found[0], found[1]


@pytest.mark.parametrize("edit", MEANT, ids=lambda edit: f"{edit[0]}: {edit[2][:30]}")
def test_what_changes_the_meaning_begins_anew(tmp_path: Path, edit: tuple[str, str, str]) -> None:
    before, after = edited(tmp_path, edit)

    assert before != after


@pytest.mark.parametrize("edit", LAYOUT, ids=lambda edit: f"{edit[0]}: {edit[2][:30]}")
def test_what_changes_only_the_looks_keeps_the_evidence(
    tmp_path: Path, edit: tuple[str, str, str]
) -> None:
    before, after = edited(tmp_path, edit)

    assert before == after


# What deciding rooms import beside each other, and why it is no part of the fingerprint.
BESIDE = {
    "errors": "says what is wrong",
    "machine": "says whether a blob that is gone was dropped on purpose",
    "store": "gives the bytes that were written; their digests are compared",
    "state": "says which parts there are, and who may skip",
    "rollout": "obeys who may skip, and asks for this fingerprint",
}


def test_what_the_decision_rests_on_is_covered() -> None:
    """Kernels make bounds of texts and look into sets; they once changed beside old evidence."""
    rests_on = {
        found
        for room in {*ROOMS} - {"spark", "session"}  # these start jobs as well
        for file in (STRATA / room).rglob("*.py")
        for found in re.findall(r"^ *(?:from|import) strata\.(\w+)", file.read_text(), re.MULTILINE)
    }
    assert "stats" in rests_on
    assert rests_on - {*ROOMS} == {*BESIDE}


def test_every_file_counts_and_one_that_comes_or_goes_begins_anew(tmp_path: Path) -> None:
    for name in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(STRATA / name, tmp_path / name, ignore=ignored)
    whole = code_of(STRATA)
    assert code_of(tmp_path) == whole
    changed = tmp_path / "decide" / "decision.py"
    changed.write_text(changed.read_text() + "\nSPARE = 1\n")
    with_edit = code_of(tmp_path)
    assert with_edit != whole

    (tmp_path / "decide" / "another.py").write_text("")

    assert code_of(tmp_path) not in (with_edit, whole)


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a root with one deciding file."""
    file = tmp_path / "root" / "decide" / "draw.py"
    file.parent.mkdir(parents=True)
    shutil.copy(STRATA / "decide" / "draw.py", file)
    return tmp_path / "root"


@pytest.mark.usefixtures("cached")
def test_a_kept_fingerprint_is_used_for_the_same_bytes_alone(small: Path, tmp_path: Path) -> None:
    place = tmp_path / "kept.txt"
    assert kept_code(small, [place]) == code_of(small)
    seal, kept = place.read_text().split()
    assert kept == code_of(small)
    place.write_text(f"{seal} {'0' * 12}\n")
    assert kept_code(small, [tmp_path / "none.txt", place]) == "0" * 12
    file = small / "decide" / "draw.py"
    text = file.read_bytes()
    for edit in (b"\nSPARE = 1\n", b"\n# A word.\n"):
        file.write_bytes(text + edit)
        assert kept_code(small, [place]) == code_of(small)


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("text", ["", "\xff", "0" * 64, f"{'0' * 64} {'0' * 12}\n"])
def test_a_kept_fingerprint_that_is_none_is_replaced(
    small: Path, tmp_path: Path, text: str
) -> None:
    place = tmp_path / "kept.txt"
    place.write_text(text, "latin-1")
    assert kept_code(small, [place]) == code_of(small) == place.read_text().split()[1]


def test_without_caches_nothing_is_kept(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert kept_code(small, [tmp_path / "kept.txt"]) == code_of(small)
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


@pytest.mark.usefixtures("cached")
def test_a_folder_that_cannot_be_written_keeps_nothing(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert kept_code(small, [tmp_path / "file" / "kept.txt"]) == code_of(small)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "root"]


def one_file(root: Path, text: str) -> str:
    """Return the fingerprint of a root with one deciding file of this text."""
    file = root / "decide" / "draw.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return code_of(root)


@pytest.mark.parametrize(
    ("one", "other"), [("x[1:]", "x[:1]"), ("f(*x)", "f(x)"), ("for a in b: c", "while a: c")]
)
def test_the_same_words_in_another_place_begin_anew(tmp_path: Path, one: str, other: str) -> None:
    assert one_file(tmp_path, one) != one_file(tmp_path, other)


@pytest.mark.parametrize("replaced", [True, False])
def test_code_that_was_replaced_while_it_was_read_has_no_fingerprint(
    monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """A look that was due lately is not enough: this one is at once."""
    monkeypatch.setattr(OURS, "replaced", lambda *, at_once=False: replaced and at_once)

    found = basis._code.__wrapped__()

    assert (found == REPLACED) == replaced
    assert replaced or found == code_of(STRATA)


def test_a_line_that_moves_into_a_block_begins_anew(tmp_path: Path) -> None:
    """Its words are the same in the same order: only where the block ends differs."""
    inside = one_file(tmp_path, "if a:\n    if b:\n        c\n        d\n")

    assert inside != one_file(tmp_path, "if a:\n    if b:\n        c\n    d\n")


@pytest.mark.parametrize("empty", [None, []])
def test_an_empty_field_that_a_release_of_python_adds_keeps_the_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: object
) -> None:
    before = one_file(tmp_path, "pass\n")
    monkeypatch.setattr(ast.Pass, "_fields", ("added",))
    monkeypatch.setattr(ast.Pass, "added", empty, raising=False)

    assert one_file(tmp_path, "pass\n") == before


def test_a_process_whose_code_was_replaced_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    state = create(spec(), 1000)
    assert recorded_basis(state) == basis_of(state)
    monkeypatch.setattr(OURS, "replaced", lambda **_: True)

    assert basis_of(state) == REPLACED
    with pytest.raises(InvalidRequest, match="was replaced beneath this process"):
        recorded_basis(state)


@pytest.mark.usefixtures("cached")
def test_a_file_under_another_name_begins_anew(small: Path, tmp_path: Path) -> None:
    """Modules are found by their names; the bytes are the same, in the same order."""
    place = tmp_path / "kept.txt"
    before = kept_code(small, [place])
    assert (len(before), before) == (12, code_of(small))

    file = small / "decide" / "draw.py"
    file.rename(file.with_name("drawn.py"))

    assert code_of(small) != before
    assert kept_code(small, [place]) == code_of(small)


@pytest.mark.usefixtures("cached")
def test_what_was_edited_while_it_was_read_is_not_kept(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edited_meanwhile(root: Path) -> str:
        (root / "decide" / "draw.py").write_text("SPARE = 1\n")
        return "0" * 12

    monkeypatch.setattr("strata.rollout.basis.code_of", edited_meanwhile)
    assert kept_code(small, [tmp_path / "kept.txt"]) == "0" * 12
    assert not (tmp_path / "kept.txt").exists()


@pytest.mark.usefixtures("cached")
def test_what_is_kept_stands_whole_in_its_place_or_nowhere(small: Path, tmp_path: Path) -> None:
    (tmp_path / "folder" / "full").mkdir(parents=True)
    (tmp_path / "folder" / "full" / "file").write_text("")
    kept_code(small, [tmp_path / "new" / "kept.txt"])  # as beside the first module ever compiled
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["kept.txt"]

    kept_code(small, [tmp_path / "folder" / "full"])
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["full"]
