"""Tables from CSV, TSV and Parquet files, and back to the same cells."""

import datetime
import decimal
import gzip
import math
import sys

import numpy as np
import pandas as pd
import pytest

from mmdgm.data.cells import number
from mmdgm.data.table_files import cell_text, csv_bytes, filled_rows, oddities, read_sheet, table_format, values
from mmdgm.errors import InputError
from small_datasets import input_error


@pytest.fixture(name="sheet")
def make_sheet(tmp_path):
    def sheet(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_sheet(path)

    return sheet


@pytest.fixture(name="parquet")
def make_parquet(tmp_path):
    def parquet(**columns):
        frame = columns.pop("frame", None)
        (pd.DataFrame(columns) if frame is None else frame).to_parquet(tmp_path / "table.parquet")
        return read_sheet(tmp_path / "table.parquet")

    return parquet


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1", 1.0), (" -2.5e3 ", -2500.0), ("", math.nan), ("  ", math.nan), ("nan", math.nan), ("0_", None)],
)
def test_numbers_are_what_people_write_as_numbers(cell, value):
    assert number(cell) == value or (math.isnan(number(cell)) and math.isnan(value))


@pytest.mark.parametrize("cell", ["a", "1,5", "NA", "0x10", "-", "1_000", "_"])
def test_other_text_is_no_number(cell):
    assert number(cell) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", "csv"),
        ("a.TSV", "tsv"),
        ("a.b.txt", "txt"),
        ("a.parquet", "parquet"),
        ("a.csv.gz", "csv"),
        ("a.npz", None),
        ("a", None),
        (".gz", None),
        ("csv", None),
    ],
)
def test_the_format_is_the_ending(tmp_path, name, kind):
    assert table_format(tmp_path / name) == kind
    (tmp_path / name).mkdir()
    assert table_format(tmp_path / name) is None


# --- text ------------------------------------------------------------------------------------------------


def test_columns_are_numbers_or_categories(sheet):
    read = sheet('\ufeffa,b,"c, d"\r\n1,x,\r\n\r\n,,2\r\n"3","y\nz",4\r\n')
    assert read.header == ["a", "b", "c, d"]
    assert [read.place(row) for row in range(3)] == ["line 2", "line 4", "line 6"]
    numeric = [read.is_numeric(name) for name in read.header]
    assert numeric == [True, False, True]
    x = values(read, read.header, numeric)
    assert x.dtype == object
    assert x[:, 1].tolist() == ["x", None, "y\nz"]
    np.testing.assert_array_equal(x[:, [0, 2]].astype(float), [[1, np.nan], [np.nan, 2], [3, 4]])
    assert values(read, ["c, d"], [True]).dtype == np.float64


@pytest.mark.parametrize("name", ["table.tsv", "table.txt", "TABLE.TSV"])
def test_a_tab_may_separate_columns(sheet, name):
    read = sheet('a, b\t"c"\n1\t"x\ty"\n\n,5\t\n', name)
    assert read.header == ["a, b", "c"]
    assert (read.column("a, b"), read.column("c")) == (["1", ",5"], ["x\ty", ""])
    assert [read.place(row) for row in range(2)] == ["line 2", "line 4"]


def test_a_file_may_be_compressed(sheet):
    assert sheet(gzip.compress(b"a\tb\n1\t2\n"), "table.tsv.gz").column("b") == ["2"]
    assert "cannot be read" in input_error(sheet, b"a,b\n1,2\n", "table.csv.gz")
    assert "cannot be read" in input_error(sheet, gzip.compress(b"a,b\n1,2\n")[:-9], "table.csv.gz")


def test_rows_are_counted_by_lines_with_cells(sheet):
    """A row of one empty cell is a row; a line without a cell is none."""
    read = sheet('\n\na\r\n1\n""\n\n \n2\n\n')
    assert read.column("a") == ["1", "", " ", "2"]
    assert [read.place(row) for row in range(4)] == ["line 4", "line 5", "line 7", "line 8"]
    np.testing.assert_array_equal(values(read, ["a"], [True])[:, 0], [1, np.nan, np.nan, 2])


@pytest.mark.parametrize(
    "cells", [["NA", "null", "None", "n/a"], ["007", "1.50", "1_000", "True"], ["-", "#", "'", "\\"]]
)
def test_text_stays_the_text_it_was(sheet, cells):
    assert sheet("a,b\n" + "".join(f"{cell},x\n" for cell in cells)).column("a") == cells


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


def test_many_columns(sheet):
    """20,000 columns: names and cells are found in time linear in their number."""
    n = 20_000
    read = sheet(",".join(f"c{i}" for i in range(n)) + "\n" + ",".join(map(str, range(n))) + "\n")
    assert read.header == [f"c{i}" for i in range(n)]
    np.testing.assert_array_equal(values(read, read.header, [True] * n), np.arange(n)[None])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n\r\n", "is empty"),
        ("a,b\n", "has a header, but no rows"),
        ("a,b\n\n", "has a header, but no rows"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ("a,,\n1,2,3\n", "two columns are called ''"),
        ("a;b\n1;2\n", "has one column, 'a;b'; separate columns by commas"),
        ("a\tb\n1\t2\n", "separate columns by commas"),
        ("a;b\n1,5;2\n", "separate columns by commas"),
        ("a,b\n1,2\n1,2,3\n", "line 3 has 3 cells, the header 2"),
        ("a,b\n1,2,\n3,4,\n", "line 2 has 3 cells, the header 2"),
        ('\na,b\n"1\n",2\n\n1\n', "line 6 has 1 cells, the header 2"),
        ("a,b\n1,2\n  \n", "line 3 has 1 cells, the header 2"),
        ('a,b\n1,"2\n', "line 2 is no CSV (unexpected end of data)"),
        ('"a,b\n', "line 1 is no CSV (unexpected end of data)"),
        ('a,b\n1,2\n1,"2"3\n', "line 3 is no CSV (',' expected after '\"')"),
        ("a" * 200_000 + ",b\n1,2\n", "line 1 is no CSV (field larger than field limit (131072))"),
        (b"a,b\n\xff,2\n", "is no UTF-8 text (byte 4)"),
        ("a,b\n1,2\n".encode("utf-16"), "is no UTF-8 text (byte 0)"),
    ],
)
def test_what_is_no_table_is_refused(sheet, tmp_path, content, said):
    message = input_error(sheet, content)
    assert message.startswith(f"{tmp_path / 'table.csv'}: ")
    assert said in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n", "has one column, 'a,b'; separate columns by tabs"),
        ("a\tb\n1\n", "line 2 has 1 cells, the header 2"),
        ('a\tb\n1\t"2\n', "line 2 is no TSV"),
    ],
)
def test_what_is_no_table_of_tabs_is_refused(sheet, content, said):
    assert said in input_error(sheet, content, "table.tsv")


@pytest.mark.parametrize("cell", ["x", "inf"])
def test_what_is_no_finite_number_is_named_with_its_place(sheet, cell):
    read = sheet(f"a,b\n1,2\n\n3,{cell}\n")
    with pytest.raises(InputError, match=rf"line 4, column b: '{cell}' is no finite number"):
        values(read, ["b"], [True])


def test_an_absent_file(tmp_path):
    for name in ("absent.csv", "absent.parquet"):
        assert input_error(read_sheet, tmp_path / name) == f"{tmp_path / name} is missing"
    assert "cannot be read (Is a directory)" in input_error(read_sheet, tmp_path)


# --- Parquet ---------------------------------------------------------------------------------------------

NAN = math.nan


@pytest.mark.parametrize(
    ("column", "numbers", "cells"),
    [
        ([1, 2, 3], [1, 2, 3], ["1", "2", "3"]),
        ([1.5, None, -2.0], [1.5, NAN, -2], ["1.5", "", "-2"]),
        ([0.1, 1e300, NAN], [0.1, 1e300, NAN], ["0.1", "1e+300", ""]),
        (pd.array([7, None, 9], "Int64"), [7, NAN, 9], ["7", "", "9"]),
        (pd.array([0.5, None, 9], "Float64"), [0.5, NAN, 9], ["0.5", "", "9"]),
        (np.array([1, 2, 255], np.uint8), [1, 2, 255], ["1", "2", "255"]),
        ([True, False, True], [1, 0, 1], ["True", "False", "True"]),
        (pd.array([True, None, False], "boolean"), [1, NAN, 0], ["True", "", "False"]),
        ([True, None, False], [1, NAN, 0], ["True", "", "False"]),
        ([decimal.Decimal("1.50"), None, decimal.Decimal(2)], [1.5, NAN, 2], ["1.50", "", "2.00"]),
        ([None, None, None], [NAN] * 3, [""] * 3),
        (["a", None, "c, d"], None, ["a", "", "c, d"]),
        (["007", "", "1.50"], None, ["007", "", "1.50"]),
        (pd.array(["a", None, "b"], "string"), None, ["a", "", "b"]),
        (pd.Categorical(["a", None, "b"]), None, ["a", "", "b"]),
        (pd.Categorical(["2", "10", "2"]), None, ["2", "10", "2"]),
    ],
)
def test_columns_of_a_parquet_file_have_types(parquet, column, numbers, cells):
    read = parquet(c=column)
    assert read.column("c") == cells
    assert read.is_numeric("c") == (numbers is not None)
    if numbers is not None:
        x = values(read, ["c"], [True])
        assert x.dtype == np.float64
        np.testing.assert_array_equal(x[:, 0], numbers)
    assert values(read, ["c"], [False])[:, 0].tolist() == [cell or None for cell in cells]


def test_text_of_a_parquet_file_may_be_read_as_the_models_numbers(parquet):
    read = parquet(c=[" 1.5 ", None, "2"], d=["1", "two", "3"])
    np.testing.assert_array_equal(values(read, ["c"], [True])[:, 0], [1.5, np.nan, 2])
    assert "row 1, column d: 'two' is no finite number" in input_error(values, read, ["d"], [True])
    read = parquet(c=pd.Categorical(["1", None, "x"]))
    assert "row 2, column c: 'x' is no finite number" in input_error(values, read, ["c"], [True])


def test_an_infinite_number_is_named_with_its_row(parquet):
    read = parquet(c=[1.0, 2.0, -np.inf])
    assert "row 2, column c: '-inf' is no finite number" in input_error(values, read, ["c"], [True])


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pd.date_range("2026-01-01", periods=2), "datetime64"),
        (pd.date_range("2026-01-01", periods=2, tz="UTC"), "datetime64"),
        ([datetime.date(2026, 1, 1), None], "date"),
        ([datetime.time(12), None], "time"),
        (pd.to_timedelta([1, 2], unit="D"), "timedelta64"),
        ([b"a", b"b"], "bytes"),
        ([[1, 2], [3]], "mixed"),
    ],
)
@pytest.mark.parametrize("numeric", [True, False])
def test_columns_of_other_types_are_named_if_they_are_used(parquet, column, kind, numeric):
    read = parquet(when=column, c=[1, 2])
    assert values(read, ["c"], [True]).tolist() == [[1], [2]]
    message = input_error(values, read, ["c", "when"], [True, numeric])
    assert f"column when holds {kind} values; give numbers, text or booleans" in message


def test_columns_of_a_parquet_file_are_those_of_the_frame(parquet):
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2), index=["x", "y", "z"])
    assert parquet(frame=frame[frame[1] > 1]).header == ["0", "1"]
    assert parquet(frame=frame).column("1") == ["1", "3", "5"]


def test_folders_named_like_partitions_add_no_columns(tmp_path):
    path = tmp_path / "year=2026" / "table.parquet"
    path.parent.mkdir()
    pd.DataFrame({"a": [1]}).to_parquet(path)
    assert read_sheet(path).header == ["a"]


def test_missing_cells_of_a_parquet_file_are_filled(parquet):
    read = parquet(
        id=[10, 20, 30],
        a=[1.25, None, 3.0],
        b=pd.array([True, None, False], "boolean"),
        c=["x", "y", None],
        when=[datetime.date(2026, 1, day) for day in (1, 2, 3)],
    )
    filled = np.array([[1.25, 1.0, "x"], [2.5, 1.0, "y"], [3.0, 0.0, "z"]], dtype=object)
    rows = filled_rows(read, ["a", "b", "c"], filled, np.array([[0, 0, 0], [1, 1, 0], [0, 0, 1]], bool))
    assert rows == [
        ["10", "1.25", "True", "x", "2026-01-01"],
        ["20", "2.5", "True", "y", "2026-01-02"],
        ["30", "3", "False", "z", "2026-01-03"],
    ]
    filled[1, 1] = "False"  # by a model that was trained on a CSV file
    assert filled_rows(read, ["a", "b", "c"], filled, np.eye(3, dtype=bool))[1][2] == "False"


def test_text_of_a_parquet_file_is_never_odd_for_being_numbers(parquet):
    read = parquet(code=["1", "2", "1"], many=[str(i) for i in range(3)])
    assert oddities(read, read.header, [False, False]) == []


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1xxxxPAR1"])
def test_what_is_no_parquet_file_is_refused(sheet, content):
    assert "table.parquet: cannot be read as a Parquet file (" in input_error(sheet, content, "table.parquet")


def test_a_damaged_parquet_file_is_refused(parquet, tmp_path):
    parquet(c=np.random.default_rng(0).normal(size=1000))
    content = bytearray((tmp_path / "table.parquet").read_bytes())
    content[4:200] = bytes(196)
    (tmp_path / "table.parquet").write_bytes(content)
    message = input_error(read_sheet, tmp_path / "table.parquet")
    assert "cannot be read as a Parquet file" in message
    assert len(message.splitlines()) == 1


def test_a_parquet_file_without_rows_is_refused(parquet):
    assert "no rows" in input_error(parquet, a=[])


@pytest.mark.parametrize(("package", "name"), [("pandas", "a.csv"), ("pandas", "a.parquet"), ("pyarrow", "a.parquet")])
def test_a_missing_package_is_named(tmp_path, monkeypatch, package, name):
    frame = pd.DataFrame({"a": [1]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv")
    monkeypatch.setitem(sys.modules, package, None)
    message = input_error(read_sheet, tmp_path / name)
    assert message == f'{tmp_path / name}: tables need pandas and pyarrow: pip install "mmdgm[tables]"'


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@sum", "'@sum"),
        ("+cmd|x", "'+cmd|x"),
        ("-", "'-"),
        ("\tx", "'\tx"),
        ("-1.5", "-1.5"),
        ("+7e3", "+7e3"),
        ("-inf", "-inf"),
        ("a=b", "a=b"),
        ("'quoted'", "'quoted'"),
        ("", ""),
    ],
)
def test_text_that_a_spreadsheet_would_compute_is_quoted_and_read_again(tmp_path, cell, written):
    content = csv_bytes([cell, "b"], [[cell, "1"], ["x", cell]])
    assert content.decode().splitlines()[1] == f"{written},1"
    (tmp_path / "x.csv").write_bytes(content)
    sheet = read_sheet(tmp_path / "x.csv")
    assert sheet.header == [cell, "b"]
    assert (sheet.column(cell), sheet.column("b")) == ([cell, "x"], ["1", cell])
