// Token and position embedding.
#include <doctest/doctest.h>

#include <normplace/nn/embedding.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {
Tokens tokens_of(std::size_t batch, std::size_t sequence, const std::vector<int>& ids) {
    Tokens tokens;
    tokens.resize({batch, sequence});
    std::copy(ids.begin(), ids.end(), tokens.data());
    return tokens;
}
}  // namespace

TEST_CASE("x = E[token] + P[position], and its gradients") {
    for (const std::size_t positions : {0, 4}) {
        Embedding<double> embedding({.vocabulary = 5, .width = 3, .positions = positions});
        randomize_parameters(embedding, 1);
        const Tokens tokens = tokens_of(2, 3, {4, 0, 4, 4, 1, 2});  // a repeated token gathers all its gradients
        Activations<double> x;
        embedding.forward(tokens, x);
        for (std::size_t r = 0; r < 6; ++r)
            for (std::size_t i = 0; i < 3; ++i)
                CHECK(x.data()[r * 3 + i] == embedding.token.weight(static_cast<std::size_t>(tokens.data()[r]), i) +
                                                 (positions ? embedding.position.weight(r % 3, i) : 0.0));
        const Activations<double> dx = random_activations(2, 3, 3, 2);
        Embedding<double>::Gradients gradients;
        zero_gradients(embedding, gradients);
        embedding.backward(tokens, dx, gradients);
        std::vector<Checked> all;
        add_parameters(all, embedding, gradients);
        CHECK(all.front().name == "token_embedding.weight");
        check_gradients(all, [&] {
            embedding.forward(tokens, x);
            return dot(x, dx);
        });
    }
}

TEST_CASE("wrong tokens are refused with their values") {
    CHECK_THROWS_WITH(Embedding<float>({.vocabulary = 0, .width = 3}),
                      "Embedding: vocabulary is 0, expected at least 1");
    const Embedding<float> embedding({.vocabulary = 5, .width = 3, .positions = 2});
    Activations<float> x;
    CHECK_THROWS_WITH(embedding.forward(tokens_of(1, 2, {1, 5}), x), "Embedding: token 5 is not in a vocabulary of 5");
    CHECK_THROWS_WITH(embedding.forward(tokens_of(1, 2, {-1, 0}), x),
                      "Embedding: token -1 is not in a vocabulary of 5");
    CHECK_THROWS_WITH(embedding.forward(tokens_of(1, 3, {0, 1, 2}), x),
                      "Embedding: a sequence of 3 tokens is longer than the 2 positions");
}
