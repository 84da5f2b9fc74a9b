"""Jobs on local processes: failures, deaths and exits become outcomes, and none is lost or done twice."""

import pytest
import sweep_jobs

from initscope.distributed.engine import collect
from initscope.distributed.folder import opened
from initscope.distributed.local import in_processes

pytest.importorskip("pyarrow")


def test_outcomes_of_trouble(tmp_path):
    found = {o.job: o for o in in_processes(sweep_jobs.troubled, sweep_jobs.jobs(9, folder=str(tmp_path)), 2)}
    assert found.keys() == {name for name, _ in sweep_jobs.jobs(9)}
    assert found["job003"].error == "ValueError: three is not liked"
    assert found["job004"].error == "SystemExit: 0"
    assert "died 3 times (signal 9: SIGKILL" in found["job006"].error
    for number in (0, 1, 2, 5, 7, 8):
        assert found[f"job{number:03}"].rows[0]["loss"] == number**2


def test_failures_are_kept_beside_the_rest(tmp_path):
    common, order = sweep_jobs.shared(5)
    with opened(tmp_path / "out") as folder:
        collect(in_processes(sweep_jobs.troubled, sweep_jobs.jobs(5, folder=str(tmp_path)), 2), folder, common, order)
        kept = folder.rows()
    assert [row["run"] for row in kept] == sorted(common)
    assert [row["status"] for row in kept] == ["done"] * 3 + ["failed"] * 2
    assert kept[3]["error"] == "ValueError: three is not liked"
    assert kept[2]["loss"] == 4.0


def test_jobs_that_never_return_are_ended():
    """All end by the limit or all the same: what is given out ahead of a job that hangs is done after it."""
    found = {o.job: o for o in in_processes(sweep_jobs.endless, sweep_jobs.jobs(3), 1, limit=0.3)}
    assert len(found) == 3
    for name in ("job000", "job002"):
        assert found[name].error == "stopped after 0.3 s, the limit of a run"


def test_a_limit_that_is_not_reached_changes_nothing():
    found = in_processes(sweep_jobs.square, sweep_jobs.jobs(3), 2, limit=3600)
    assert sorted(o.rows[0]["loss"] for o in found) == [0.0, 1.0, 4.0]


def test_no_jobs_need_no_processes():
    assert list(in_processes(sweep_jobs.square, [], 2)) == []
