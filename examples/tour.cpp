// SPDX-License-Identifier: BSD-3-Clause
//
// A byte language model of the library's parts: embedding, causal encoder, readout, loss. Forward, backward, and steps
// of plain gradient descent, after which it must know its one sentence better.
#include <algorithm>
#include <iostream>
#include <normplace/normplace.hpp>
#include <string>

namespace np = normplace;

/// A model is whatever lists its members; `np::for_each_parameter` then walks them by name.
struct Model {
    np::Embedding<float> embedding{{.vocabulary = 256, .width = 64, .positions = 32}};
    np::Encoder<np::PeriLN, float> encoder{{.layers = 2, .width = 64, .heads = 4, .feed_forward = 256, .causal = true}};
    np::Linear<float> readout{64, 256, false};

    struct Gradients {
        np::Embedding<float>::Gradients embedding;
        np::Encoder<np::PeriLN, float>::Gradients encoder;
        np::Linear<float>::Gradients readout;

        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(np::named("embedding", self.embedding), np::named("encoder", self.encoder),
                                   np::named("readout", self.readout));
        }
    };
};

np::Tokens table(const std::vector<int>& ids, std::size_t batch, std::size_t sequence) {
    np::Tokens tokens = np::Tokens::from_shape({batch, sequence});
    std::copy(ids.begin(), ids.end(), tokens.begin());
    return tokens;
}

int main() {
    const std::string text = "It was the best of times, it was the worst of times, it was the age of wisdom.";
    const np::TokenBatch batch = np::byte_batch(text, 2, 32, 0);
    const np::Tokens tokens = table(batch.tokens, 2, 32), targets = table(batch.targets, 2, 32);

    Model model;
    np::RandomEngine random(1);
    model.embedding.initialize(np::Initializer(random));
    model.encoder.initialize(random, np::Initialization::xavier());
    model.readout.initialize(np::Initializer(random), np::Role::readout);
    std::clog << np::blas_description() << '\n';
    std::cout << np::parameter_count(model) << " parameters\n";

    Model::Gradients gradients;
    np::Encoder<np::PeriLN, float>::Cache cache;
    np::Activations<float> x, y, logits, dx, dy;
    double first = 0.0, loss = 0.0;
    for (int step = 0; step < 50; ++step) {
        np::zero_gradients(model, gradients);
        model.embedding.forward(tokens, x);
        model.encoder.forward(x, y, cache);
        model.readout.forward(y, logits);
        loss = np::cross_entropy(logits, targets, logits);  // logits become their gradient
        model.readout.backward(y, logits, dy, gradients.readout);
        model.encoder.backward(dy, dx, cache, gradients.encoder);
        model.embedding.backward(tokens, dx, gradients.embedding);

        np::for_each_parameter(
            [](const std::string&, auto& value, const auto& gradient) {
                for (std::size_t i = 0; i < value.size(); ++i) value.data()[i] -= 0.1f * gradient.data()[i];
            },
            model, gradients);
        if (step == 0) first = loss;
    }
    std::cout << "loss " << first << " at first, " << loss << " after 50 steps\n";
    return loss < 0.5 * first ? 0 : 1;
}
