"""Ports for servers in processes of their own."""

import socket
import sys

__all__ = ["free_port"]


def free_port() -> int:
    """Return a port that nobody listens on, and that nobody but whoever names it is given while this process lives.

    It stays bound without listening: Linux then gives it to none who asks for any port, as other workers do many
    times a second, and lets a server that may use an address again listen there.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = int(held.getsockname()[1])
    if sys.platform == "linux":
        held.detach()
    else:  # elsewhere no other could listen there
        held.close()
    return port
