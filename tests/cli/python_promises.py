"""What tools/examples/python promises, against a real server: its URL is the argument, and a redis-cli's socket."""
import subprocess
import sys
import time

import tidelock

url, socket = sys.argv[1:]


def raises(name, call):
    try:
        call()
    except tidelock.Error as error:
        assert error.name == name, f"{error.name} ({error}) instead of {name}"
        return
    raise AssertionError(f"no {name}")


def times_out(client):
    """The end of the wait may meet a question that is not answered yet: then it waits anew, for twice as long."""
    for wait_s in 0.2, 0.4, 0.8, 1.6, 3.2, 6.4:
        try:
            client.lock("python:a", wait_s=wait_s)
        except tidelock.Busy as error:
            assert error.name == "TL_ETIMEDOUT", error.name
            return
        except tidelock.Error as error:
            assert error.name in ("TL_EUNCERTAIN", "TL_EUNAVAILABLE"), f"{error.name} ({error})"
    raise AssertionError("no wait timed out")


def leave(client):
    with client.lock("python:a", ttl_s=2):
        subprocess.run(["redis-cli", "-s", socket, "SET", "python:a", "another's"], check=True, stdout=subprocess.DEVNULL)


with tidelock.Client(url) as client, tidelock.Client(url) as other:
    with client.lock("python:a", ttl_s=2) as lock:
        assert 0 < lock.remaining_s() <= 2 and lock.fence() > 0
        raises("TL_EBUSY", lambda: other.lock("python:a"))
        times_out(other)
        lock.extend(30)
        assert lock.remaining_s() > 10
    later = other.lock("python:a", wait_s=5, ttl_s=0.2, renew=False)
    assert later.fence() > lock.fence()
    while later.remaining_s() > 0:
        time.sleep(0.01)
    client.lock("python:a", wait_s=5).release()
    raises("TL_ELOST", lambda: later.extend(1))
    with client.lock("python:a", wait_s=5) as lock:
        raises("TL_EINVALID", lambda: client.lock(""))
    raises("TL_ETAKEN", lambda: leave(client))
with tidelock.Client(url) as client:
    lock = client.lock("python:b")
for call in lock.remaining_s, lock.fence, lock.release, lambda: client.lock("python:b"):
    try:
        call()
    except ValueError as error:
        assert str(error) == "the client is closed", error
    else:
        raise AssertionError("a lock outlives its client")
raises("TL_EINVALID", lambda: tidelock.Client("nonsense://x"))
print("done")
