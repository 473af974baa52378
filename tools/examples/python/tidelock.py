"""Locks of tidelock in Python, by its C library: cffi reads the declarations from the installed header.

    with tidelock.Client("redis://localhost") as client, client.lock("jobs:nightly", wait_s=5) as lock:
        while lock.remaining_s() > 0 and work_is_left():
            do_a_step(fence=lock.fence())

Calls that wait for the server release Python's global lock, so other threads run meanwhile. The import needs
cffi, pkg-config and a C compiler. Where the library is not in a system directory, set PKG_CONFIG_PATH and
LD_LIBRARY_PATH.
"""
import re
import subprocess
import weakref

import cffi


def _declarations():
    """The header as cffi takes it: preprocessed, and without what the compiler's own headers add."""
    flags = subprocess.check_output(["pkg-config", "--cflags", "tidelock"], text=True).split()
    source = "#include <tidelock/tidelock.h>\n"
    text = subprocess.check_output(["cc", "-E", "-xc", *flags, "-"], input=source, text=True)
    own, kept = False, []
    for line in text.splitlines():
        mark = re.match(r'# \d+ "(.*)"', line)
        if mark:
            own = mark[1].endswith("/tidelock/tidelock.h")
        elif own:
            kept.append(line)
    return re.sub(r"__attribute__\s*\(\(.*?\)\)", "", "\n".join(kept))


ffi = cffi.FFI()
ffi.cdef(_declarations())
_lib = ffi.dlopen("libtidelock.so.0")


class Error(Exception):
    """What a call of the library reported. `name` is like "TL_EBUSY"; the message is for people."""

    def __init__(self, code, message):
        super().__init__(message)
        self.name = ffi.string(_lib.tl_err_name(code)).decode()


class Busy(Error):
    """Another client holds the lock."""


def _call(function, *args):
    err = ffi.new("tl_error *")
    code = function(*args, err)
    if code:
        kind = Busy if code in (_lib.TL_EBUSY, _lib.TL_ETIMEDOUT) else Error
        raise kind(code, ffi.string(err.message).decode(errors="replace"))


def _open(handle):
    if handle is None:
        raise ValueError("the client is closed")
    return handle


class Client:
    """A connection to the server, opened when it is first needed. Threads may share it, processes may not."""

    def __init__(self, url):
        url = ffi.new("char[]", url.encode())
        options = ffi.new("tl_client_options *", {"size": ffi.sizeof("tl_client_options"), "url": url})
        ret = ffi.new("tl_client **")
        _call(_lib.tl_client_open, options, ret)
        self._client = ret[0]
        self._locks = weakref.WeakSet()

    def lock(self, key, wait_s=0.0, ttl_s=30.0, renew=True):
        """Acquire the lock; raises Busy if another client holds it until wait_s have passed."""
        lock = Lock(_open(self._client), key.encode(), int(ttl_s * 1000), renew)
        self._locks.add(lock)
        _call(_lib.tl_lock_acquire, lock._lock, int(wait_s * 1000))
        return lock

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for lock in self._locks:  # before their client
            ffi.release(lock._lock)
            lock._lock = None
        _lib.tl_client_close(_open(self._client))
        self._client = None


class Lock:
    """A lock that is held. It is renewed in the background, unless renew is False."""

    def __init__(self, client, key, ttl_ms, renew):
        options = ffi.new("tl_lock_options *", {"size": ffi.sizeof("tl_lock_options"), "ttl_ms": ttl_ms})
        options.manual_renew = not renew
        err = ffi.new("tl_error *")
        made = _lib.tl_lock_new(client, key, len(key), options, err)
        if not made:
            raise Error(err.code, ffi.string(err.message).decode(errors="replace"))
        self._lock = ffi.gc(made, _lib.tl_lock_free)

    def remaining_s(self):
        """For how long the lock is certainly held. At 0 stop working."""
        return _lib.tl_lock_remaining_ms(_open(self._lock)) / 1000

    def fence(self):
        """The fencing number: store it with what the lock protects, and refuse smaller ones there."""
        return _lib.tl_lock_fence(_open(self._lock))

    def extend(self, ttl_s):
        """Renew it now; raises Error if it has been lost."""
        _call(_lib.tl_lock_extend, _open(self._lock), int(ttl_s * 1000))

    def release(self):
        """Raises Error if the lock had been lost before."""
        _call(_lib.tl_lock_release, _open(self._lock))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.release()
        except Error:
            if kind is None:
                raise
