"""The report of one run, as a page."""

from mmdgm.data.codecs import ImageCodec
from mmdgm.report import image_sections, sections, table_sections
from mmdgm.report.page import Section, Text, render
from mmdgm.report.subject import ABSENT, Errors, Judgement, Rows, Run, errors_of, judge


def run_report(run: Run, rows: Rows | None) -> bytes:
    """Return the page of a run. `rows`: what it is shown on; without them, there is only what needs no rows."""
    judged = None if rows is None else judge(run.estimator, rows)
    lead = f"{run.model}, trained on {run.data}."
    if judged is not None:
        lead += f" Shown on {judged.rows.place}."
    found = [sections.training(run), *_of_rows(run, judged), sections.curves(run), sections.repeat(run)]
    return render(f"Report: {run.name}", lead, tiles(run, judged), [section for section in found if section])


def tiles(run: Run, judged: Judgement | None) -> list[tuple[str, str, str]]:
    """Return the most important figures, as (name, value, remark)."""
    found = []
    errors = errors_of(run)
    if judged is not None and judged.truth is not None and judged.rows.given:
        wrong = int((judged.predicted != judged.truth).sum())
        given = Errors(wrong, len(judged.truth), judged.rows.place)
        found.append(("Error on the given rows", given.percent, given.interval.partition(";")[0]))
    if errors is None and not found:
        found.append(("Error", ABSENT, "not measured: give labeled rows by mmdgm report RUN --data FILE"))
    elif errors is not None:
        name = "Test error" if run.counts.get("test") else "Error on new rows, estimated"
        found.append((name, errors.percent, errors.interval))
    counts = run.counts
    if counts:
        found.append(("Labels", f"{counts['labeled']:,}", f"{counts['unlabeled']:,} unlabeled rows"))
    found.append(("Classes", f"{len(run.estimator.classes_):,}", ""))
    if "seconds" in run.result:
        found.append(("Training", f"{run.result['seconds']:,.0f} s", str(run.result.get("device", ""))))
    return found


def _of_rows(run: Run, judged: Judgement | None) -> list[Section | None]:
    """Return the sections that depend on the kind of data."""
    estimator = run.estimator
    images = isinstance(estimator.codec_, ImageCodec)
    if judged is None:
        note = "The rows are not at hand. Give some: mmdgm report RUN --data FILE."
        return [image_sections.samples(estimator) if images else None, Section("Rows", [Text(note)])]
    shared = [sections.confusion(judged)]
    if images:
        return [
            *shared,
            image_sections.samples(estimator),
            image_sections.reconstructions(estimator, judged),
            image_sections.imputation(estimator, judged),
            image_sections.rows_to_look_at(estimator, judged),
            sections.features(run, judged),
        ]
    return [
        *shared,
        table_sections.columns(estimator, judged),
        table_sections.samples(estimator, judged),
        table_sections.rows_to_look_at(estimator, judged),
        sections.features(run, judged),
    ]
