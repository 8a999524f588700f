// OpenAI's own Node.js client: node node_stories.mjs URL MODEL. Ends with 0 if every story holds. node_test.py starts the
// server.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, model] = process.argv.slice(2);
// The packages lie in the build folder, from where this is started.
const { default: OpenAI } = await import(pathToFileURL(createRequire(process.cwd() + "/").resolve("openai")));
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "any", maxRetries: 0, timeout: 60_000 });
const greedy = { model, temperature: 0 };
const user = (content) => [{ role: "user", content }];

const stories = {
  async "stream says the same"() {
    const asked = { ...greedy, messages: user("Name three colours."), max_tokens: 24 };
    const whole = await client.chat.completions.create(asked);
    assert.ok(whole.choices[0].message.content);
    let text = "", reason = null, usage = null;
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta?.content ?? "";
      reason ??= chunk.choices[0]?.finish_reason ?? null;
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(reason, whole.choices[0].finish_reason);
    assert.equal(usage.total_tokens, whole.usage.total_tokens);
  },

  async "the client's accumulator"() {
    const asked = { ...greedy, messages: user("Name three colours."), max_tokens: 24 };
    const final = await client.chat.completions.stream(asked).finalChatCompletion();
    assert.equal(final.choices[0].message.content, (await client.chat.completions.create(asked)).choices[0].message.content);
  },

  async "responses"() {
    const asked = { ...greedy, input: "Hello! Who are you?", max_output_tokens: 200 };
    const whole = await client.responses.create(asked);
    const final = await client.responses.stream(asked).finalResponse();
    assert.equal(final.output_text, whole.output_text);
    assert.equal(final.status, "completed");
  },

  async "embeddings, packed and not"() {
    const packed = (await client.embeddings.create({ model, input: "a cat" })).data[0].embedding;
    const plain = (await client.embeddings.create({ model, input: "a cat", encoding_format: "float" })).data[0].embedding;
    assert.equal(packed.length, plain.length);
    assert.ok(packed.every((x, i) => Math.abs(x - plain[i]) < 1e-6));
  },

  async "errors"() {
    const ask = (more) => client.chat.completions.create({ ...greedy, messages: user("Hi"), max_tokens: 4, ...more });
    await assert.rejects(ask({ temperature: "hot" }), (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature");
    await assert.rejects(ask({ model: "other" }), (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
    await assert.rejects(ask({ tools: [{ type: "function", function: { name: "f" } }] }), (e) => e instanceof OpenAI.BadRequestError && e.param === "tools");
  },

  async "abort in the middle of a stream"() {
    const stream = await client.chat.completions.create({ ...greedy, messages: user("Write a long story."), max_tokens: 2000, ignore_eos: true, stream: true });
    let chunks = 0;
    for await (const _ of stream)
      if (++chunks === 4) stream.controller.abort();
    assert.ok(chunks < 100, `${chunks} chunks came after the abort`);
    const until = Date.now() + 1000;
    for (;;) {
      const page = await (await fetch(url + "/metrics")).text();
      if (/^millrace_num_requests_running(\{.*\})? 0$/m.test(page)) break;
      assert.ok(Date.now() < until, "it still runs after 1 s");
      await new Promise((wake) => setTimeout(wake, 20));
    }
  },
};

for (const [name, story] of Object.entries(stories)) {
  try {
    await story();
    console.log(`ok    ${name}`);
  } catch (failure) {
    console.log(`FAIL  ${name}`);
    console.log(failure);
    process.exitCode = 1;
  }
}
