"""Lines of requirements files, as far as they are taken."""

from __future__ import annotations

import pytest

from runtime.core.python_requirements import RequirementsError, parse_requirements


def test_lines_are_normalized_and_sorted() -> None:
    lines = [
        "# all of it",
        "Shapely == 2.1  # geometry",
        "",
        "geopy<3,>=2",
        "GEOPY >=2, <3",
        "x[a]>1;python_version>'3'",
    ]
    assert parse_requirements(lines) == ["geopy<3,>=2", "shapely==2.1", 'x[a]>1; python_version > "3"']


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-r other.txt", "options"),
        ("--extra-index-url=http://x", "options"),
        ("a @ https://x/a.whl", "URLs"),
        ("a @ file:///a.whl", "URLs"),
        ("./a.whl", "no Python requirement"),
        ("git+https://x/a", "no Python requirement"),
        ("a b", "no Python requirement"),
        ("a==1 --hash=sha256:00", "no Python requirement"),
        ("""a; "https://me:h" in "${PIP_INDEX_URL}" """, "variables"),
    ],
)
def test_everything_else_is_refused(line: str, told: str) -> None:
    with pytest.raises(RequirementsError, match=told):
        parse_requirements([line])


def test_there_is_a_limit() -> None:
    with pytest.raises(RequirementsError, match="at most 200"):
        parse_requirements(f"a{number}" for number in range(201))
