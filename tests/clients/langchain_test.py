"""LangChain's OpenAI classes against the server: invoke, stream, batch, embeddings."""
import unittest

from environment import enter_python_environment

enter_python_environment()

from langchain_core.messages import HumanMessage, SystemMessage  # noqa: E402: only in that environment
from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # noqa: E402
from served import MODEL, Server  # noqa: E402


class LangChain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.at = dict(base_url=cls.enterClassContext(Server()).url + "/v1", api_key="any", max_retries=0, timeout=60)
        cls.chat = ChatOpenAI(model=MODEL, temperature=0, max_tokens=24, **cls.at)

    def test_invoke_and_stream_say_the_same(self):
        messages = [SystemMessage("Be brief."), HumanMessage("Name three colours.")]
        whole = self.chat.invoke(messages)
        self.assertTrue(whole.content)
        self.assertEqual(whole.usage_metadata["total_tokens"], whole.usage_metadata["input_tokens"] + whole.usage_metadata["output_tokens"])
        self.assertEqual(whole.response_metadata["model_name"], MODEL)
        chunks = list(self.chat.stream(messages, stream_usage=True))
        total = chunks[0]
        for chunk in chunks[1:]:
            total += chunk
        self.assertGreater(len(chunks), 3)
        self.assertEqual(total.content, whole.content)
        self.assertEqual(total.usage_metadata["total_tokens"], whole.usage_metadata["total_tokens"])

    def test_batch_equals_one_by_one(self):
        prompts = [f"Say something about the number {i}." for i in range(8)]
        together = [answer.content for answer in self.chat.batch(prompts)]
        self.assertEqual(together, [self.chat.invoke(prompt).content for prompt in prompts])

    def test_through_the_responses_api(self):
        by_responses = ChatOpenAI(model=MODEL, temperature=0, max_tokens=24, use_responses_api=True, **self.at)
        answer = by_responses.invoke("Name three colours.")
        self.assertEqual(answer.text, self.chat.invoke("Name three colours.").content)

    def test_embeddings(self):
        embeddings = OpenAIEmbeddings(model=MODEL, check_embedding_ctx_length=False, **self.at)  # else it asks for OpenAI's own vocabulary
        documents = embeddings.embed_documents(["a", "b"])
        self.assertEqual(documents[0], embeddings.embed_query("a"))
        self.assertEqual(len(documents[0]), len(documents[1]))


if __name__ == "__main__":
    unittest.main(verbosity=1)
