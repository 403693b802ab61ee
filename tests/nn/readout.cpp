// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <nn/gradient_check.hpp>
#include <normplace/nn/readout.hpp>

using namespace normplace;
using namespace normplace::test;

TEST_CASE("Readout: gradients, with a matrix of its own and with the embedding's") {
    for (const bool tied : {false, true}) {
        CAPTURE(tied);
        Embedding<double> embedding({.vocabulary = 5, .width = 4});
        Readout<double> readout(4, 5, tied);
        randomize_parameters(embedding, 1);
        randomize_parameters(readout, 2);
        CHECK(readout.tied() == tied);
        Embedding<double>::Gradients embedding_gradients;
        Readout<double>::Gradients gradients;
        zero_gradients(embedding, embedding_gradients);
        zero_gradients(readout, gradients);
        Activations<double> x = random_activations(2, 3, 4, 3), logits, dx;
        const Activations<double> dlogits = random_activations(2, 3, 5, 4);
        readout.backward(x, dlogits, embedding, dx, gradients, embedding_gradients);
        std::vector<Checked> all{checked("x", x, dx)};
        add_parameters(all, readout, gradients);
        add_parameters(all, embedding, embedding_gradients);
        CHECK(all.size() == (tied ? 2 : 3));
        check_gradients(all, [&] {
            readout.forward(x, embedding, logits);
            return dot(logits, dlogits);
        });
    }
}

TEST_CASE("Readout refuses what does not fit") {
    const Embedding<float> embedding({.vocabulary = 5, .width = 4});
    Readout<float> readout(4, 5, true);
    Activations<float> x({1, 2, 3}), logits;
    CHECK_THROWS_WITH_AS(readout.forward(x, embedding, logits), "Readout: x has shape (1, 2, 3), expected (B, S, 4)",
                         std::invalid_argument);
    CHECK_THROWS_AS(Readout<float>(0, 5, true), std::invalid_argument);
    CHECK_THROWS_AS(Readout<float>(4, 0, true), std::invalid_argument);
}

TEST_CASE("Readout: no tokens, no logits") {
    const Embedding<float> embedding({.vocabulary = 5, .width = 4});
    const Readout<float> readout(4, 5, true);
    Activations<float> x({0, 2, 4}), logits;
    readout.forward(x, embedding, logits);
    CHECK(logits.size() == 0);
}
