// SPDX-License-Identifier: BSD-3-Clause
//
// A byte language model under Peri-LN, trained by Adam; stopped half way, written to a checkpoint, and gone on with by
// another model, to the same bits.
#include <filesystem>
#include <iostream>
#include <normplace/io/checkpoint.hpp>
#include <normplace/placement/catalogue.hpp>
#include <normplace/training.hpp>

namespace np = normplace;

/// Trains from step `from` to step `to`, and leaves the checkpoint there.
double train(std::uint64_t from, std::uint64_t to, const std::string& checkpoint) {
    np::LanguageModel<np::PeriLN, float> model(
        {.vocabulary = 256, .layers = 2, .width = 64, .heads = 4, .feed_forward = 256, .positions = 32});
    decltype(model)::Gradients gradients;
    np::zero_gradients(model, gradients);
    const auto parameters = np::parameter_list(model, gradients);
    np::TrainingLoop<float> loop(parameters, np::Adam<float>(parameters),
                                 np::Schedule::cosine_decay(3e-3, 0.0, 60).with_warm_up(5), {.clip_norm = 1.0});
    np::RandomEngine random(1);
    model.initialize(random);
    const auto tensors = np::named_parameters(model);
    if (from > 0) loop.resume(np::read_checkpoint(checkpoint, tensors, loop.optimizer().state(), "{}").step);

    const std::string text = "where does the layer norm go, and what does that do to the gradients? ";
    np::Tokens tokens({4, 32}), targets({4, 32});
    np::Activations<float> logits;
    decltype(model)::Cache cache;
    double loss_at_end = 0.0;
    while (loop.steps() < to) {
        for (std::size_t b = 0; b < 4; ++b)
            for (std::size_t i = 0; i < 32; ++i) {
                const std::size_t at = 17 * loop.steps() + 29 * b + i;
                tokens(b, i) = text[at % text.size()];
                targets(b, i) = text[(at + 1) % text.size()];
            }
        cache.dropout = np::DropoutKey{.seed = 1, .rate = 0.1}.at(loop.steps());
        const np::StepResult step = loop.step([&](std::uint64_t) {
            model.forward(tokens, logits, cache);
            const np::LossSum loss = np::cross_entropy_sum(logits, targets, logits);  // logits become its gradient
            model.backward(logits, cache, gradients);
            return loss;
        });
        if (step.diverged()) throw std::runtime_error(step.divergence);
        loss_at_end = step.loss;
    }
    np::write_checkpoint(checkpoint, tensors, loop.optimizer().state(),
                         {.configuration = "{}", .step = loop.steps(), .updates = loop.steps()});
    return loss_at_end;
}

int main() {
    const auto folder = std::filesystem::temp_directory_path();
    const std::string straight = folder / "normplace-straight.safetensors",
                      halves = folder / "normplace-halves.safetensors";
    const double loss = train(0, 60, straight);
    train(0, 30, halves);
    const double resumed = train(30, 60, halves);
    std::cout << "loss after 60 steps: " << loss << ", stopped and resumed: " << resumed << '\n';
    std::filesystem::remove(straight);
    std::filesystem::remove(halves);
    return loss == resumed && loss < 1.5 ? 0 : 1;  // of 5.5 for a uniform guess
}
