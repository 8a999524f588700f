"""What an answer says, whatever its dialect and whether it streams: texts, finish reasons, usage. Knows no connection."""
import collections

COMPLETIONS, CHAT, MESSAGES, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses"
Said = collections.namedtuple("Said", "choices usage")  # {index: (text, finish reason)}, usage


def usage_of(usage):
    """Numbers only, so that details that are null or missing compare equal; what was cached differs from call to call."""
    flat = {}
    for key, value in (usage or {}).items():
        if isinstance(value, dict):
            flat.update({f"{key}.{k}": v for k, v in value.items() if v})
        elif value is not None:
            flat[key] = value
    if "cache_read_input_tokens" in flat:  # Anthropic's input_tokens are those that were not cached
        flat["input_tokens"] += flat["cache_read_input_tokens"]
    return {k: v for k, v in flat.items() if "cache" not in k}


def said_of_answer(path, body):
    if path == COMPLETIONS:
        return Said({c["index"]: (c["text"], c["finish_reason"]) for c in body["choices"]}, usage_of(body["usage"]))
    if path == CHAT:
        return Said({c["index"]: (c["message"]["content"] or "", c["finish_reason"]) for c in body["choices"]}, usage_of(body["usage"]))
    if path == MESSAGES:
        text = "".join(part["text"] for part in body["content"])
        return Said({0: (text, body["stop_reason"])}, usage_of(body["usage"]))
    text = "".join(part["text"] for item in body["output"] for part in item["content"])
    return Said({0: (text, body["status"])}, usage_of(body["usage"]))


def said_of_events(path, events):
    texts, ends, usage = collections.defaultdict(str), {}, {}
    for event in events:
        data = event.data
        if data == "[DONE]":
            continue
        if "error" in data and data["error"] or event.name == "error":
            raise AssertionError(f"an error in the stream: {data}")
        if path in (COMPLETIONS, CHAT):
            for choice in data["choices"]:
                i = choice["index"]
                texts[i] += choice["text"] if path == COMPLETIONS else choice["delta"].get("content") or ""
                if choice.get("finish_reason"):
                    if i in ends:
                        raise AssertionError(f"choice {i} ends twice")
                    ends[i] = choice["finish_reason"]
            usage.update(data.get("usage") or {})
        elif path == MESSAGES:
            if data["type"] == "message_start":
                usage.update(data["message"]["usage"])
            elif data["type"] == "content_block_delta":
                texts[0] += data["delta"]["text"]
            elif data["type"] == "message_delta":
                ends[0] = data["delta"]["stop_reason"]
                usage.update(data["usage"])
        elif data["type"] == "response.output_text.delta":
            texts[0] += data["delta"]
        elif data["type"] in ("response.completed", "response.incomplete"):
            ends[0] = data["response"]["status"]
            usage.update(data["response"]["usage"])
    return Said({i: (texts[i], end) for i, end in ends.items()}, usage_of(usage))


def streamed(path, body):
    """The same request, streamed, with its usage."""
    more = {"stream": True}
    if path in (COMPLETIONS, CHAT):
        more["stream_options"] = {"include_usage": True}
    return {**body, **more}


def user(text):
    return [{"role": "user", "content": text}]
