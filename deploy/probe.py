"""Ask the service of this container whether it is ready; exit code 1 if not. The standard library alone, in 50 ms.

    python -IS probe.py            # /readyz
    python -IS probe.py /healthz   # the process answers

For HEALTHCHECK: the service must be started with --open-probes, as the image does.
"""

import http.client
import os
import ssl
import sys


def main(path: str) -> int:
    """Return 0 if the service answers with 200."""
    port = int(os.environ.get("NEARVEIL_PORT", "8000"))
    connection: http.client.HTTPConnection
    if "NEARVEIL_TLS_KEY" in os.environ:
        # Its own certificate need not name this machine, and nothing secret is sent.
        trusting = ssl._create_unverified_context()  # noqa: S323
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=4, context=trusting)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except OSError as error:
        print(f"no answer on port {port} ({type(error).__name__})")
        return 1
    print(f"{path}: {status}")
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "/readyz"))
