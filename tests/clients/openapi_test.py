"""/openapi.json of a running server, by OpenAPI's own validator; and it names what the server answers."""
import re
import unittest

from environment import enter_python_environment

enter_python_environment()

from openapi_spec_validator import validate  # noqa: E402: only in that environment
from served import Server  # noqa: E402


class OpenApi(unittest.TestCase):
    def test_the_document_is_valid_and_complete(self):
        with Server() as server:
            answer = server.get("/openapi.json")
            self.assertEqual(answer.status, 200)
            document = answer.json
            validate(document)
            said = server.get("/v1/capabilities").json["endpoints"]
        told = {(method.upper(), re.sub(r"{\w+}", "{}", path)) for path, methods in document["paths"].items() for method in methods}
        self.assertEqual(told, {(e["method"], e["path"]) for e in said})


if __name__ == "__main__":
    unittest.main()
