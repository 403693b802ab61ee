// SPDX-License-Identifier: BSD-3-Clause
//
// The measured report: what `predict` says, read off the real blocks over many seeds.
//
//     GradientReport measured = measure<PostLN, float>(model, {.seeds = 32});
//     measured.layers.back().w2.norm             // sqrt(mean over seeds of ||dLoss/dW_2||_F^2)
//     measured.layers.back().w2.standard_error
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <normplace/measure/read_gradients.hpp>
#include <normplace/measure/reference_network.hpp>

namespace normplace {

struct MeasureOptions {
    std::size_t seeds = 8;                   ///< S; the standard error falls as 1/sqrt(S); one seed has none (NaN)
    std::optional<std::string_view> text{};  ///< bytes that the seeds read (token_batch.hpp); without: Gaussian tokens
    std::function<void(std::size_t done, std::size_t total)>
        progress{};           ///< called after each seed, one call at a time
    std::size_t threads = 0;  ///< 0: as many as OpenMP would use
};

namespace detail {

inline SublayerReport& block(GradientReport& report, std::size_t layer, SublayerKind kind) {
    return kind == SublayerKind::attention ? report.layers[layer].attention : report.layers[layer].feed_forward;
}

/// The network's gradients, once its input is there. A norm is *squared*, so that seeds can be averaged.
template <class T>
void read_seed(ReferenceNetwork<T>& network, GradientReport& report) {
    network.forward([&](std::size_t l, SublayerKind kind, const Activations<T>& stream) {
        read_stream(stream, block(report, l, kind).stream);
    });
    read_stream(network.input(), report.input);
    const double tokens = static_cast<double>(network.token_count());
    report.loss.value = network.loss(tokens).sum / tokens;
    network.zero_gradients();
    const auto& dx = network.backward([&](std::size_t l, SublayerKind kind, const Activations<T>& gradient) {
        block(report, l, kind).stream.gradient_second_moment.value = second_moment(gradient);
    });
    report.input.gradient_second_moment.value = second_moment(dx);
    for (std::size_t l = 0; l < report.layers.size(); ++l) {
        LayerReport& layer = report.layers[l];
        read_attention(network.gradients().layers[l].attention, layer, layer.attention);
        read_feed_forward(network.gradients().layers[l].feed_forward, layer);
    }
    for (const auto& norm : network.gradients().output.norms) read_norm(norm, report.final_norm);
    report.readout.norm = squared_norm(network.readout_gradients().weight);
    if (const auto* tables = network.embedding_gradients()) {
        report.token_embedding.norm = squared_norm(tables->token.weight);
        report.position_embedding.norm = squared_norm(tables->position.weight);
    }
}

template <class T>
GradientReport measure(const AnyPlacement& placement, const ReferenceModel& model, const MeasureOptions& options) {
    using Network = ReferenceNetwork<T>;
    GradientReport report = empty_report(placement, model);
    const std::vector<double> branches = branch_squares(placement, model, options.text, options.seeds);
    std::vector<GradientReport> seeds(options.seeds, report);
    for_each_seed(
        options, [&] { return std::make_unique<Network>(placement, model, options.text.has_value(), branches); },
        [&](std::size_t seed, Network& network) {
            network.draw_weights(seed);
            if (options.text) network.read_batch(byte_batch(*options.text, model.batch, model.sequence, seed));
            else network.draw_batch();
            read_seed(network, seeds[seed]);
        });
    average_seeds(seeds, report);
    return report;
}

}  // namespace detail

/// Measures the gradients of the reference model under the placement, in scalar T, over `options.seeds` seeds. Seed s
/// always draws the same weights and data, whatever the number of seeds and threads.
/// @throws std::invalid_argument when the model does not fit, seeds is 0, or the text is too short (with the length it
///         would need) or its bytes are not all tokens of the vocabulary
template <class T = float>
GradientReport measure(const AnyPlacement& placement, const ReferenceModel& model, const MeasureOptions& options = {}) {
    model.check();
    detail::require_positive("measure", "seeds", options.seeds);
    if (options.text) detail::require_text("measure", model, *options.text, options.seeds);
    return detail::measure<T>(placement, model, options);
}
template <class P, class T = float>
GradientReport measure(const ReferenceModel& model, const MeasureOptions& options = {}) {
    static_assert(explain_placement<P>());
    return measure<T>(any_placement<P>, model, options);
}

}  // namespace normplace
