"""Liveness probe: ``python -m sottovoce.faces.client.health server.toml`` exits 0 where the server is well.

For a container's ``HEALTHCHECK``: it reads from the server's own configuration where the server listens and whether it
speaks TLS. The certificate is not checked, for it is made out to another name than this machine has inside: nothing
secret is sent, and the answer is one word.
"""

from __future__ import annotations

import ipaddress
import ssl
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

_PATIENCE = 10.0
"""Seconds to wait for the answer."""


def check(config: Path) -> str:
    """Return what is wrong with the server that a configuration describes; an empty text where it is well."""
    try:
        server = tomllib.loads(config.read_text(encoding="utf-8")).get("server", {})
    except (OSError, ValueError) as error:
        return f"cannot read {config}: {error}"
    scheme = "https" if "tls" in server else "http"
    address = f"{scheme}://{_reachable(str(server.get('host', '127.0.0.1')))}:{server.get('port', 8400)}/health"
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting)
    )  # a proxy would be asked for a machine of its own
    try:
        with direct.open(address, timeout=_PATIENCE):
            return ""
    except urllib.error.HTTPError as error:
        return f"{address} answers {error.code}: {error.read(1000).decode(errors='replace')}"
    except OSError as error:
        return f"{address} does not answer: {error}"


def _reachable(host: str) -> str:
    """Return where a server that listens at `host` is reached from the same machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"[{address}]" if address.version == 6 else str(address)


def main() -> int:
    """Say on standard error what is wrong, and return the exit status."""
    problem = check(Path(sys.argv[1] if len(sys.argv) > 1 else "server.toml"))
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
