"""CSV files as tables, and back to the same cells."""

import math

import numpy as np
import pytest

from mmdgm.data.csv_files import cell_text, csv_bytes, filled_rows, oddities, read_sheet, values
from mmdgm.data.tables import holds_numbers, number
from mmdgm.errors import InputError


@pytest.fixture(name="sheet")
def make_sheet(tmp_path):
    def sheet(content):
        path = tmp_path / "table.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_sheet(path)

    return sheet


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1", 1.0), (" -2.5e3 ", -2500.0), ("", math.nan), ("  ", math.nan), ("nan", math.nan), ("1_000", None)],
)
def test_numbers_are_what_people_write_as_numbers(cell, value):
    assert number(cell) == value or (math.isnan(number(cell)) and math.isnan(value))


@pytest.mark.parametrize("cell", ["a", "1,5", "NA", "0x10", "-"])
def test_other_text_is_no_number(cell):
    assert number(cell) is None


def test_columns_are_numbers_or_categories(sheet):
    read = sheet('\ufeffa,b,"c, d"\r\n1,x,\r\n\r\n,,2\r\n"3","y\nz",4\r\n')
    assert (read.header, read.lines) == (["a", "b", "c, d"], [2, 4, 6])
    numeric = [holds_numbers(read.column(name)) for name in read.header]
    assert numeric == [True, False, True]
    x = values(read, read.header, numeric)
    assert x.dtype == object
    assert x[:, 1].tolist() == ["x", None, "y\nz"]
    np.testing.assert_array_equal(x[:, [0, 2]].astype(float), [[1, np.nan], [np.nan, 2], [3, 4]])
    assert values(read, ["c, d"], [True]).dtype == np.float64


def test_cells_that_are_not_missing_stay_the_text_they_were(sheet):
    read = sheet("id,a,b\n007,1.50,\n008,,x\n009, 1e3 ,y y\n")
    filled = np.array([[1.5, "z"], [2.25, "x"], [1000.0, "y y"]], dtype=object)
    missing = np.array([[False, True], [True, False], [False, False]])
    rows = filled_rows(read, ["a", "b"], filled, missing)
    assert csv_bytes(read.header, rows) == b"id,a,b\n007,1.50,z\n008,2.25,x\n009, 1e3 ,y y\n"


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (np.float64(-0.123456789), "-0.123457"), (1e20, "1e+20"), ("a", "a")]
)
def test_filled_cells_are_short(value, text):
    assert cell_text(value) == text


def test_columns_that_may_be_taken_for_others_are_named(sheet):
    lines = "".join(f"{i if i else 'NA'},name{i},{i % 2}\n" for i in range(30))
    read = sheet("age,name,sex\n" + lines)
    odd = oddities(read, ["age", "name", "sex"], [False, False, True])
    assert [line.split()[1] for line in odd] == ["age", "name"]
    assert "1 of its 30" in odd[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "'a'"),
        ("a;b\n1;2\n", "comma"),
        ("a,b\n1,2\n1,2,3\n", "line 3 has 3"),
        ('a,b\n1,"2\n', "CSV"),
        (b"a,b\n\xff,2\n", "(byte 4)"),
    ],
)
def test_what_is_no_table_is_refused(sheet, content, said):
    with pytest.raises(InputError) as error:
        sheet(content)
    assert said in str(error.value)


@pytest.mark.parametrize("cell", ["x", "inf"])
def test_what_is_no_finite_number_is_named_with_its_place(sheet, cell):
    read = sheet(f"a,b\n1,2\n3,{cell}\n")
    with pytest.raises(InputError, match=rf"line 3, column b: '{cell}'"):
        values(read, ["b"], [True])


def test_an_absent_file(tmp_path):
    with pytest.raises(InputError, match="is missing"):
        read_sheet(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_sheet(tmp_path)
