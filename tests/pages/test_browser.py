"""The page in a real browser: nothing on its console, its pictures there, nothing fetched."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from initscope.pages import write_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--v=0",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


@pytest.fixture(scope="module")
def page(comparison_and_images, tmp_path_factory):
    comparison, images = comparison_and_images
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, comparison, images=images)
    return path


def browse(page, *options):
    profile = page.parent / f"profile-{len(list(page.parent.iterdir()))}"
    return subprocess.run(
        [BROWSER, *QUIET, f"--user-data-dir={profile}", *options, page.as_uri()],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )


def screenshot(page, name, *options):
    target = page.parent / name
    browse(page, f"--screenshot={target}", *options)
    with Image.open(target) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def requests_of_the_page(page, name):
    """Origins that asked the network for something; what the browser asks for itself has none."""
    log = page.parent / f"{name}.json"
    ran = browse(page, "--dump-dom", f"--log-net-log={log}")
    return ran, set(re.findall(r'"initiator":"([^"]*)"', log.read_text(encoding="utf-8"))) - {"not an origin"}


def test_console_and_network(page):
    ran, asking = requests_of_the_page(page, "net")
    assert "CONSOLE" not in ran.stderr
    assert ran.stdout.count("<svg") == 3
    assert not asking


def test_the_check_would_see_a_request_and_an_error(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('seen')</script>")
    ran, asking = requests_of_the_page(page, "bad")
    assert asking
    assert "CONSOLE" in ran.stderr


def test_pictures_in_light_and_dark(page):
    """Both colours of the pictures are on the screen, and the paper changes with the reader's preference."""
    colours = {
        "light": ((251, 251, 249), (37, 99, 201), (194, 65, 12)),
        "dark": ((21, 23, 26), (127, 176, 255), (255, 157, 92)),
    }
    for number, (scheme, (paper, predicted, measured)) in enumerate(colours.items()):
        setting = f"--blink-settings=preferredColorScheme={1 - number}"
        pixels = screenshot(page, f"{scheme}.png", "--window-size=1000,1400", setting)
        assert tuple(pixels[2, 2]) == paper
        for colour in (predicted, measured):
            assert (np.abs(pixels - colour).max(axis=2) <= 12).sum() > 200, (scheme, colour)


def test_a_phone_needs_no_sideways_scrolling(page):
    """At 500 pixels, the narrowest window that Chromium opens, the right margin stays empty: only tables scroll."""
    pixels = screenshot(page, "phone.png", "--window-size=500,3000")
    assert pixels.shape[1] == 500
    margin = pixels[:, -8:]
    assert (margin == margin[0, -1]).all()
