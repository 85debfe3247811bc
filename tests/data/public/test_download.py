"""Downloads from a server on this machine: whole, cut off, wrong, and archives that climb out."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tailmask._util.messages import UserError
from tailmask.data import DataOptions
from tailmask.data.public.download import MNIST, Remote, data_root, provide, unpack

CONTENT = bytes(range(256)) * 4000


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `sent` says how much of it goes out before the connection is cut."""

    files: dict[str, bytes]
    sent: int | None


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.sent])

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.files, server.sent = {"/a.bin": CONTENT}, None
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def remote(server: Server, name: str, content: bytes, *files: str, unpack_to: str | None = None) -> Remote:
    server.files[f"/{name}"] = content
    url = f"http://127.0.0.1:{server.server_address[1]}/{name}"
    return Remote(url, hashlib.sha256(content).hexdigest(), files, unpack_to)


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_comes_whole_and_only_once(server: Server, tmp_path: Path) -> None:
    wanted = remote(server, "a.bin", CONTENT, "set/a.bin")
    options = DataOptions(data_dir=tmp_path)
    assert provide([wanted], options) == tmp_path
    assert (tmp_path / "set" / "a.bin").read_bytes() == CONTENT
    assert (tmp_path / "set" / "a.bin").stat().st_mode & 0o044 == 0o044
    server.files.clear()
    provide([wanted], options)
    assert files_in(tmp_path) == ["set/a.bin"]


@pytest.mark.parametrize("sent", [0, 1, len(CONTENT) // 2, len(CONTENT) - 1])
def test_a_cut_download_leaves_nothing_and_can_be_repeated(server: Server, tmp_path: Path, sent: int) -> None:
    wanted = remote(server, "a.bin", CONTENT, "set/a.bin")
    server.sent = sent
    with pytest.raises(UserError, match=r"a\.bin") as error:
        provide([wanted], DataOptions(data_dir=tmp_path))
    assert "\n" not in str(error.value)
    assert files_in(tmp_path) == []
    server.sent = None
    provide([wanted], DataOptions(data_dir=tmp_path))
    assert (tmp_path / "set" / "a.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused(server: Server, tmp_path: Path) -> None:
    wanted = remote(server, "a.bin", CONTENT, "set/a.bin")
    server.files["/a.bin"] = CONTENT[:-1] + b"x"
    with pytest.raises(UserError, match="does not have the published checksum"):
        provide([wanted], DataOptions(data_dir=tmp_path))
    assert files_in(tmp_path) == []


def test_a_missing_page_and_an_absent_server_say_where_to_put_the_file(
    server: Server, tmp_path: Path
) -> None:
    wanted = remote(server, "a.bin", CONTENT, "set/a.bin")
    server.files.clear()
    absent = Remote("http://127.0.0.1:1/a.bin", wanted.sha256, wanted.files)
    for each in (wanted, absent):
        with pytest.raises(UserError) as error:
            provide([each], DataOptions(data_dir=tmp_path))
        place = tmp_path / "set" / "a.bin"
        assert str(place) in str(error.value)
        assert "the download failed" in str(error.value)
        assert f"download {each.url} and put it at {place}" in str(error.value)


def test_no_download_is_tried_where_none_is_wanted(server: Server, tmp_path: Path) -> None:
    wanted = remote(server, "a.tar.gz", tar_of({"set/a": b"1"}), "set/a", unpack_to=".")
    with pytest.raises(UserError, match=f"unpack it in {tmp_path}"):
        provide([wanted], DataOptions(data_dir=tmp_path, download=False))
    assert files_in(tmp_path) == []


def test_archives_are_unpacked_and_not_kept(server: Server, tmp_path: Path) -> None:
    content = tar_of({"set/a.bin": b"1", "set/deep/b.bin": b"22"})
    wanted = remote(server, "a.tar.gz", content, "set/a.bin", "set/deep/b.bin", unpack_to=".")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "mine.txt").write_text("kept")
    provide([wanted], DataOptions(data_dir=tmp_path))
    assert files_in(tmp_path) == ["set/a.bin", "set/deep/b.bin", "set/mine.txt"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("images/1.jpg", b"jpg")
    wanted = remote(server, "images.zip", buffer.getvalue(), "coco/images", unpack_to="coco")
    provide([wanted], DataOptions(data_dir=tmp_path))
    assert (tmp_path / "coco" / "images" / "1.jpg").read_bytes() == b"jpg"


@pytest.mark.parametrize("name", ["../out.txt", "/tmp/out.txt", "a/../../out.txt", "..\\out.txt"])
def test_archives_cannot_climb_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.tar.gz").write_bytes(tar_of({"good/a": b"1", name: b"evil"}))
    with pytest.raises(UserError, match="outside of its folder"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "inside" / "deep")
    assert files_in(tmp_path) == ["a.tar.gz"]


def test_links_in_archives_are_passed_over(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("set/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    unpack(tmp_path / "a.tar", tmp_path / "inside")
    assert not (tmp_path / "inside" / "set").exists()


def test_where_the_data_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TAILMASK_DATA", str(tmp_path / "named"))
    assert data_root(DataOptions(data_dir=tmp_path)) == tmp_path
    assert data_root(DataOptions()) == tmp_path / "named"
    monkeypatch.delenv("TAILMASK_DATA")
    assert data_root(DataOptions()).name == "tailmask"


def test_the_checksums_are_those_of_the_real_files(real_data: Path) -> None:
    for each in MNIST:
        assert hashlib.sha256((real_data / each.files[0]).read_bytes()).hexdigest() == each.sha256
