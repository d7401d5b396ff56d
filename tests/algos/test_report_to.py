"""Trackers beside metrics.jsonl."""

from __future__ import annotations

import pytest

from algos.report_to import check_installed


def test_a_tracker_that_is_not_installed_is_named_with_the_way_to_install_it() -> None:
    check_installed(("tensorboard",))
    with pytest.raises(ValueError, match=r"--report-to nowhere: .* pip install nowhere"):
        check_installed(("tensorboard", "nowhere"))
