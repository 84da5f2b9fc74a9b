import functools
import http.server
import threading

import pytest

from initscope.data import locations


@pytest.fixture(autouse=True)
def only_what_the_test_provides(monkeypatch, tmp_path):
    """No data of this machine, no network: an unset INITSCOPE_DATA, an own cache, and no official server."""
    for name in ("INITSCOPE_DATA", "INITSCOPE_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INITSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(locations, "SYSTEM_FOLDERS", ())
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.requested.append(self.path)
        super().do_GET()


@pytest.fixture
def server(tmp_path):
    """A web server of the folder ``server.folder`` on this machine; ``server.url``, ``server.requested``."""
    folder = tmp_path / "served"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as running:
        running.folder, running.requested = folder, []
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()
