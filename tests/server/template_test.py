#!/usr/bin/env python3
"""Kind 5 of the reported cases as far as it is the server's: O5.2 to O5.6. The template engine line by line (O5.1) is in src/text."""
import time

import models
from case import Case, main
from said import CHAT, COMPLETIONS, user

NOT_OURS = {"{% frobnicate %}x{% endfrobnicate %}": "frobnicate", "{{ messages|nofilter }}": "nofilter", "{% for %}": "statement",
            "{{ messages": "messages", "{% if true %}x": "if", "{{ foo() }}": "foo"}
ALTERNATE = ("{% for m in messages %}{% if m.role == 'user' and loop.index0 % 2 == 1 %}{{ raise_exception('roles must alternate') }}"
             "{% endif %}{{ m.content }}{% endfor %}")
TODAY = ("{% if strftime_now is defined %}{{ strftime_now(\"%d %b %Y\") }}{% endif %}|{% if messages[0]['role'] == 'system' %}"
         "{{ messages[0]['content']|trim }}{% set messages = messages[1:] %}{% endif %}{% for m in messages %}{{ m['role'] }}{% endfor %}")


class Template(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve(models.scripted(cls.folder / "m", {}))

    def rendered(self, server, messages):
        answer = self.ok(server, "/apply-template", {"messages": messages})
        return answer["prompt"]

    def tokens(self, messages):
        return self.ok(self.server, CHAT, {"messages": messages, "max_tokens": 1})["usage"]["prompt_tokens"]

    def test_o5_2_what_is_not_supported_is_an_error(self):
        for i, (template, word) in enumerate(NOT_OURS.items()):
            server = self.serve_here(models.scripted(self.folder / f"odd{i}", {}, template=template))
            answer = server.post(CHAT, {"messages": user("q"), "max_tokens": 1})
            self.assertIn(answer.status, (400, 500), (template, answer))
            self.assertRegex(answer.json["error"]["message"], "template|line", template)
            self.assertIn(word, answer.json["error"]["message"], template)
            self.assertEqual(server.post(CHAT, {"messages": user("q"), "stream": True}).status, answer.status)
            self.ok(server, COMPLETIONS, {"prompt": "A", "max_tokens": 1})
            server.stop()

    def test_o5_3_the_template_refuses(self):
        server = self.serve_here(models.scripted(self.folder / "alternate", {}, template=ALTERNATE))
        for stream in (False, True):
            self.e400(server, CHAT, {"messages": user("a") + user("b"), "stream": stream}, "roles must alternate")
        self.alive(server)

    def test_o5_4_content_null_beside_tool_calls(self):
        call = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]}
        counts = set()
        for content in ({"content": ""}, {"content": None}, {}):
            messages = user("q") + [{**call, **content}, {"role": "tool", "tool_call_id": "c1", "content": "1"}]
            counts.add(self.tokens(messages))
            text = self.rendered(self.server, messages)
            self.assertNotRegex(text, "None|null")
        self.assertEqual(len(counts), 1)

    def test_o5_5_content_as_a_list_of_parts(self):
        part = lambda text: {"type": "text", "text": text}
        one = lambda content: [{"role": "user", "content": content}]
        self.assertIn(self.rendered(self.server, one([part("a"), part("b")])), (self.rendered(self.server, user("ab")), self.rendered(self.server, user("a\nb"))))
        self.assertIn(self.tokens(one([part("a"), part("b")])), (self.tokens(user("ab")), self.tokens(user("a\nb"))))
        empty = self.server.post(CHAT, {"messages": one([]), "max_tokens": 1})
        if empty.status != 400:
            self.assertEqual(self.tokens(one([])), self.tokens(user("")))
        for content in ([{"type": "image_url", "image_url": {"url": "data:,"}}], [{"type": "weird"}], [1], {"type": "text"}, [part("a"), {"type": "text"}],
                        [part(5)]):
            self.e400(self.server, CHAT, {"messages": one(content)}, "messages[0].content")
        self.alive(self.server)

    def test_o5_6_the_date_roles_and_no_system_message(self):
        server = self.serve_here(models.scripted(self.folder / "today", {}, template=TODAY))
        dates = {time.strftime("%d %b %Y")}
        got = self.rendered(server, user("x"))
        dates.add(time.strftime("%d %b %Y"))
        self.assertIn(got, {d + "|user" for d in dates})
        got = self.rendered(server, [{"role": "system", "content": " be kind "}] + user("x"))
        self.assertEqual(got.split("|", 1)[1], "be kinduser")
        self.e400(server, CHAT, {"messages": []}, "messages")


if __name__ == "__main__":
    main()
