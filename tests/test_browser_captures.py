"""The browser's capture says what is missing where there is no browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import ClickException

from scripts.browser_captures import NARROW, WIDE, find_browser, side_by_side


def test_a_browser_is_found_by_any_of_its_names_or_it_is_said_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ClickException, match=r"no chromium or .* on PATH: install Chromium \(Debian: apt-get install"):
        find_browser({"PATH": str(tmp_path)})
    for name in ("google-chrome", "own"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert find_browser({"PATH": str(tmp_path)}) == str(tmp_path / "google-chrome")
    assert find_browser({"PATH": str(tmp_path), "BROWSER_BINARY": "own"}) == str(tmp_path / "own")
    with pytest.raises(ClickException, match="no other on PATH"):
        find_browser({"PATH": str(tmp_path), "BROWSER_BINARY": "other"})


def test_the_page_is_shown_on_a_wide_and_a_narrow_screen() -> None:
    shown = side_by_side("page.html")
    assert all(f'src="page.html" width="{width}"' in shown for width in (WIDE, NARROW))
