"""Rings between processes: messages come as they went, and what is torn is never believed."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from rlx.workers.process import Process
from rlx.workers.rings import IN_RING, LINE, MOST, SIZE, Channel, Torn

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="pipes and signals are those of POSIX"
)


@pytest.fixture
def ends():
    ours, theirs = Channel.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def memory(channel: Channel) -> memoryview:
    return memoryview(channel._given[0].buffer)


def test_messages_come_as_they_went(ends):
    draw = random.Random(0)
    sizes = [0, 1, MOST - 1, MOST, MOST + 1, SIZE, 9 * SIZE + 5, *range(99)]
    for one, other in (ends, ends[::-1]):
        messages = [draw.randbytes(size) for size in sizes + draw.choices(range(9000), k=99)]
        sender = threading.Thread(target=lambda: [one.send_bytes(x) for x in messages])  # noqa: B023
        sender.start()
        assert [other.recv_bytes() for _ in messages] == messages
        sender.join()
        assert not other.poll()
    ends[0].send_bytes(b"a")
    assert ends[1].poll() and ends[1].poll(9.0) and ends[1].recv_bytes(1) == b"a"


def test_who_writes_to_a_full_ring_waits(ends):
    ours, theirs = ends
    count, sent = 200, []

    def send() -> None:
        for i in range(count):
            ours.send_bytes(bytes([i]) * MOST)
            sent.append(i)

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(0.05)
    assert sender.is_alive() and SIZE // MOST <= len(sent) < count  # the socket holds some, too
    assert [theirs.recv_bytes()[:1] for _ in range(count)] == [bytes([i]) for i in range(count)]
    sender.join()
    ours.send_bytes(b"a")  # in the ring again
    assert theirs._in._number == ours._out._number - 1 and theirs.recv_bytes() == b"a"

    def send_in_vain() -> None:
        with pytest.raises(OSError):  # the other one is dead, and nobody waits for it
            send()

    sender = threading.Thread(target=send_in_vain)
    sender.start()
    time.sleep(0.05)
    theirs.close()
    sender.join()
    assert len(sent) < 2 * count


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, b"\1"), (4, b"\xff" * 4), (4, b"\4"), (8, b"\0\0\0\0"), (16, b"x"), (20, b"x")],
    ids=["number", "length", "shorter", "checksum", "first", "last"],
)
def test_a_record_that_was_changed_is_torn(ends, place, value):
    ours, theirs = ends
    ours.send_bytes(b"hello")
    first = 2 * LINE + place
    memory(ours)[first : first + len(value)] = value
    with pytest.raises(Torn):
        theirs.recv_bytes()


def test_a_bell_without_a_record_is_torn(ends):
    ours, theirs = ends
    ours.send_bytes(b"hello")
    os.write(ours._to, IN_RING + b"?")
    assert theirs.recv_bytes() == b"hello"
    with pytest.raises(Torn, match="not the next one"):
        theirs.recv_bytes()
    with pytest.raises(Torn, match="announces nothing"):
        theirs.recv_bytes()


@pytest.mark.parametrize("done", [1, 2**63, 10**6])
def test_a_reader_that_claims_what_cannot_be_is_torn(ends, done):
    ours, theirs = ends
    for _ in range(3):
        ours.send_bytes(b"hello")
        theirs.recv_bytes()
    theirs._in._done[0] = done
    with pytest.raises(Torn, match="the place up to which a ring was read"):
        ours.send_bytes(b"hello")


def test_a_message_may_be_bounded(ends):
    ours, theirs = ends
    ours.send_bytes(b"a" * (MOST + 1))
    with pytest.raises(OSError):
        theirs.recv_bytes(MOST)


def test_random_writes_make_no_wrong_message():
    draw, torn = random.Random(0), 0
    for _ in range(300):
        ours, theirs = Channel.pair()
        sent = [draw.randbytes(draw.randrange(300)) for _ in range(20)]
        for message in sent:
            ours.send_bytes(message)
        for _ in range(draw.randint(1, 3)):
            place = LINE + draw.randrange(LINE + 20 * 170)
            memory(ours)[place : place + 2] = draw.randbytes(2)
        try:
            for message in sent:
                assert theirs.recv_bytes() == message
        except Torn:
            torn += 1
        ours.close()
        theirs.close()
    assert torn > 200


def flood(connection: Channel, life: object) -> None:
    """Send what goes on for ever: messages whose number tells what is in them."""
    numbers = random.Random(0)
    while True:
        connection.send_bytes(numbers.randbytes(numbers.choice([9, 900, 5 * MOST])))


def test_who_is_killed_while_it_writes_leaves_whole_messages():
    draw = random.Random(0)
    for _ in range(3):
        process, numbers, heard = Process(flood), random.Random(0), 0
        timer = threading.Timer(draw.uniform(0.5, 0.7), process.kill, ["enough"])
        with pytest.raises((EOFError, OSError)) as caught:
            while True:
                found = process.connection.recv_bytes()
                assert found == numbers.randbytes(numbers.choice([9, 900, 5 * MOST]))
                heard += 1
                if heard == 1:
                    timer.start()
        assert not isinstance(caught.value, Torn) and heard > 10
        assert process.end() == "enough"


@pytest.mark.skipif(sys.platform != "linux", reason="not every system tells it")
def test_who_was_stopped_is_told_from_who_hangs():
    process = Process(flood)
    process.connection.recv_bytes()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    process.life.beat(0.1)
    until = time.monotonic() + 20
    while process.is_alive and time.monotonic() < until:
        time.sleep(0.05)
    how = process.end()
    assert how.startswith("was stopped by a signal, and gave no sign of life for ")


def test_a_sign_of_life_that_is_no_number_is_late():
    process = Process(flood)
    process.life.beat(math.nan)
    until = time.monotonic() + 20
    while process.is_alive and time.monotonic() < until:
        time.sleep(0.05)
    assert process.end().startswith("gave no sign of life for ")


@pytest.mark.skipif(sys.platform != "linux", reason="it looks at the files of Linux")
def test_nothing_is_left_of_a_channel():
    def held() -> int:
        return Path("/proc/self/maps").read_text().count("/pym-")

    shared, files = set(os.listdir("/dev/shm")), len(os.listdir("/proc/self/fd"))
    before = held()
    for _ in range(9):
        ours, theirs = Channel.pair()
        assert held() > before and set(os.listdir("/dev/shm")) <= shared  # it has no name
        ours.close()
        theirs.close()
    del ours, theirs
    assert held() == before and len(os.listdir("/proc/self/fd")) == files


def test_a_closed_channel_touches_no_file_that_has_its_number(tmp_path):
    ours, theirs = Channel.pair()
    ours.close()
    theirs.close()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(tmp_path / str(i), "w+b")) for i in range(8)]
        for use in (lambda: ours.send_bytes(b"x"), ours.recv_bytes):
            with pytest.raises(OSError):
                use()
    assert not any(os.path.getsize(file.name) for file in files)
