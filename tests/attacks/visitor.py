"""Somebody at Airflow's address, logged in or not: says what was answered, and follows no lead."""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from demo.airflow import PASSWORDS


class Visitor:
    """One person, or nobody."""

    def __init__(self, base: str, name: str = "", home: Path | None = None) -> None:
        """Log in as `name` with the password that lies in Airflow's folder; nobody if empty."""
        self.address, self.name = urlsplit(base), name
        self._headers = {"Content-Type": "application/json"}
        if name and home is not None:
            password = json.loads((home / PASSWORDS).read_text("utf-8"))[name]
            who = {"username": name, "password": password}
            status, said = self.asks("POST", "/auth/token", who)
            assert status == 201, (status, said)
            self._headers["Authorization"] = f"Bearer {said['access_token']}"

    def asks(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status, and what was said: a document, or text. The path is sent as it is."""
        line = http.client.HTTPConnection(
            self.address.hostname or "", self.address.port, timeout=120
        )
        try:
            data = None if body is None else json.dumps(body)
            line.request(method, path, data, self._headers)
            answer = line.getresponse()
            said = answer.read().decode(errors="replace")
            try:
                return answer.status, json.loads(said)
            except ValueError:
                return answer.status, said
        finally:
            line.close()
