// Token and position embedding.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

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
    for (const std::size_t positions : {0u, 4u}) {
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

TEST_CASE("scaled tokens and sinusoids are PyTorch's") {
    std::ifstream file(std::filesystem::path(NORMPLACE_GOLDEN_DIR) / "loss.json");
    const auto golden = nlohmann::json::parse(file);
    for (const auto& expected : golden.at("embedding")) {
        const std::size_t width = expected.at("width"), first = expected.at("first_position");
        Embedding<double> embedding({.vocabulary = 5,
                                     .width = width,
                                     .positions = 12,
                                     .scale = std::sqrt(static_cast<double>(width)),
                                     .position_kind = PositionKind::sinusoidal});
        const auto entries = [&](const char* name) { return expected.at(name).get<std::vector<double>>(); };
        const auto weight = entries("weight"), gradient = entries("dx");
        std::copy(weight.begin(), weight.end(), embedding.token.weight.data());
        std::vector<int> ids;
        for (const auto& row : expected.at("tokens"))
            for (const auto& id : row) ids.push_back(id.get<int>());
        const Tokens tokens = tokens_of(2, 3, ids);
        Activations<double> x, dx;
        embedding.forward(tokens, x, first);
        dx.resize({2, 3, width});
        std::copy(gradient.begin(), gradient.end(), dx.data());
        Embedding<double>::Gradients gradients;
        zero_gradients(embedding, gradients);
        CHECK(parameter_count(embedding) == 5 * width);  // sinusoids are none
        embedding.backward(tokens, dx, gradients, first);
        // The largest angle is 9, whose rounding the sine and the cosine pass on.
        const auto check = [&](const double* ours, const std::vector<double>& theirs) {
            for (std::size_t i = 0; i < theirs.size(); ++i)
                CHECK(std::abs(ours[i] - theirs[i]) < 16 * std::numeric_limits<double>::epsilon() * 9);
        };
        check(x.data(), entries("x"));
        check(gradients.token.weight.data(), entries("dweight"));
    }
}

TEST_CASE("the gradients of scaled tokens and of learned positions from a later one on") {
    Embedding<double> embedding({.vocabulary = 5, .width = 3, .positions = 9, .scale = 1.7});
    randomize_parameters(embedding, 1);
    const Tokens tokens = tokens_of(2, 3, {4, 0, 4, 4, 1, 2});
    const Activations<double> dx = random_activations(2, 3, 3, 2);
    Activations<double> x;
    Embedding<double>::Gradients gradients;
    zero_gradients(embedding, gradients);
    embedding.backward(tokens, dx, gradients, 6);
    std::vector<Checked> all;
    add_parameters(all, embedding, gradients);
    check_gradients(all, [&] {
        embedding.forward(tokens, x, 6);
        return dot(x, dx);
    });
}

TEST_CASE("one token at a time is the sequence") {
    for (const PositionKind kind : {PositionKind::learned, PositionKind::sinusoidal}) {
        Embedding<float> embedding({.vocabulary = 5, .width = 4, .positions = 3, .scale = 2.0, .position_kind = kind});
        randomize_parameters(embedding, 1);
        Activations<float> x, one;
        embedding.forward(tokens_of(1, 3, {3, 1, 4}), x);
        for (std::size_t s = 0; s < 3; ++s) {
            embedding.forward(tokens_of(1, 1, {s == 0 ? 3 : s == 1 ? 1 : 4}), one, s);
            for (std::size_t i = 0; i < 4; ++i) CHECK(one(0, 0, i) == x(0, s, i));
        }
    }
}

#ifdef _OPENMP
TEST_CASE("the number of threads changes nothing, though tokens share rows") {
    const int before = omp_get_max_threads();
    Embedding<float> embedding({.vocabulary = 7, .width = 96, .positions = 700, .scale = 3.0});
    randomize_parameters(embedding, 1);
    Tokens tokens({5, 700});
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens.data()[i] = static_cast<int>(i * i % 7);
    const auto outcome = [&](int threads) {
        omp_set_num_threads(threads);
        Activations<float> x;
        Embedding<float>::Gradients gradients;
        zero_gradients(embedding, gradients);
        embedding.forward(tokens, x);
        embedding.backward(tokens, x, gradients);
        return std::tuple(x, gradients.token.weight, gradients.position.weight);
    };
    const auto expected = outcome(1);
    CHECK(outcome(2) == expected);
    CHECK(outcome(5) == expected);
    omp_set_num_threads(before);
}
#endif

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
    CHECK_THROWS_WITH(embedding.forward(tokens_of(1, 2, {0, 1}), x, 1),
                      "Embedding: a sequence of 2 tokens from position 1 on is longer than the 2 positions");
    CHECK_THROWS_WITH(embedding.forward(tokens_of(1, 1, {0}), x, std::numeric_limits<std::size_t>::max()),
                      "Embedding: a sequence of 1 tokens from position 18446744073709551615 on is longer than the 2 "
                      "positions");
    CHECK_THROWS_WITH(Embedding<float>({.vocabulary = 5, .width = 3, .scale = -1.0}),
                      "Embedding: scale is -1, expected a positive number");
    const EmbeddingOptions endless{.vocabulary = 5, .width = 3, .position_kind = PositionKind::sinusoidal};
    CHECK_THROWS_WITH(Embedding<float>{endless}, "Embedding: positions is 0, expected at least 1");
    const Embedding<float> fixed(
        {.vocabulary = 5, .width = 3, .positions = 2, .position_kind = PositionKind::sinusoidal});
    CHECK_THROWS_WITH(fixed.forward(tokens_of(1, 3, {0, 1, 2}), x),
                      "Embedding: a sequence of 3 tokens is longer than the 2 positions");
    Embedding<float>::Gradients gradients;
    zero_gradients(embedding, gradients);
    x.resize({1, 2, 3});
    CHECK_THROWS_WITH(embedding.backward(tokens_of(1, 2, {0, 1}), x, gradients, 1),
                      "Embedding: a sequence of 2 tokens from position 1 on is longer than the 2 positions");
}
