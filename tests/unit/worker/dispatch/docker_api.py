"""The slice of Docker's API that the dispatcher uses; each container is a real process."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.unit.worker.dispatch.processes import Box
from tests.unit.worker.dispatch.serving import Call, Route

Answer = tuple[int, Any]


class DockerApi:
    """Records the requests, and runs the containers."""

    def __init__(self, bin_folder: Path) -> None:
        self.bin_folder = bin_folder
        self.pulled: list[tuple[str, dict[str, str] | None]] = []
        self.configs: dict[str, dict[str, Any]] = {}
        self.boxes: dict[str, Box] = {}
        self.removed: list[str] = []
        self.out_of_memory: set[str] = set()
        self.labels: dict[str, dict[str, str]] = {}
        self.start_problem = ""
        self.delete_problem = ""

    def routes(self) -> dict[str, Route]:
        one = r"(?:/v[\d.]+)?/containers/([^/]+)"
        return {
            r"GET (?:/v[\d.]+)?/version": lambda _: (200, {"ApiVersion": "1.43", "Version": "24"}),
            r"POST (?:/v[\d.]+)?/images/create": self.pull,
            r"GET (?:/v[\d.]+)?/images/(.+)/json": self.inspect,
            r"POST (?:/v[\d.]+)?/containers/create": self.create,
            f"GET {one}/json": self.show,
            f"POST {one}/start": self.start,
            f"POST {one}/wait": lambda call: (200, {"StatusCode": self.boxes[call.parts[0]].wait()}),
            f"POST {one}/kill": self.kill,
            f"DELETE {one}": self.delete,
        }

    def pull(self, call: Call) -> Answer:
        secret = call.headers.get("x-registry-auth")
        auth = json.loads(base64.urlsafe_b64decode(secret)) if secret else None
        if call.query["fromImage"].startswith("absent"):
            return 404, {"message": "pull access denied for absent"}
        if call.query["fromImage"].startswith("locked"):
            return 500, {"message": 'Head "https://locked/v2/": unauthorized: authentication required'}
        self.pulled.append((call.query["fromImage"], auth))
        return 200, {"status": "Downloaded newer image"}

    def inspect(self, call: Call) -> Answer:
        name = call.parts[0]
        is_there = not name.startswith("absent")
        about = {"Id": name, "Config": {"Labels": self.labels.get(name)}}
        return (200, about) if is_there else (404, {"message": f"No such image: {name}"})

    def create(self, call: Call) -> Answer:
        name = call.query["name"]
        if name in self.configs:
            return 409, {"message": f'Conflict. The container name "/{name}" is already in use'}
        self.configs[name] = call.body
        return 201, {"Id": name, "Warnings": []}

    def show(self, call: Call) -> Answer:
        name = call.parts[0]
        state = {"OOMKilled": name in self.out_of_memory}
        is_there = name in self.configs and name not in self.removed
        return (200, {"Id": name, "State": state}) if is_there else (404, {"message": "No such container"})

    def start(self, call: Call) -> Answer:
        name = call.parts[0]
        if self.start_problem:
            return 400, {"message": self.start_problem}
        if name in self.boxes and self.boxes[name].exit_code() is None:
            return 304, None
        config = self.configs[name]
        environment = dict(line.split("=", 1) for line in config["Env"])
        self.boxes[name] = Box(self.bin_folder, config["Cmd"], environment)
        return 204, None

    def kill(self, call: Call) -> Answer:
        box = self.boxes[call.parts[0]]
        if box.exit_code() is not None:
            return 409, {"message": "Container is not running"}
        box.signal(call.query["signal"])
        return 204, None

    def delete(self, call: Call) -> Answer:
        name = call.parts[0]
        if self.delete_problem:
            return 500, {"message": self.delete_problem}
        if box := self.boxes.get(name):
            box.signal("SIGKILL")
        self.removed.append(name)
        return 204, None
