// SPDX-License-Identifier: BSD-3-Clause
//
// What is predicted and what is measured, in one form: the gradient norm of every parameter and the moments of the
// residual stream, layer by layer. `predict` fills it from the theory, `measure` from the blocks.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <normplace/analysis/reference_model.hpp>
#include <normplace/placement/print.hpp>

namespace normplace {

inline constexpr double not_available = std::numeric_limits<double>::quiet_NaN();

/// sqrt(E ||dLoss/dW||_F^2): the root mean square over seeds of the Frobenius norm. NaN where the model has no such
/// parameter or the theory no answer.
struct GradientNorm {
    double norm = not_available;
    double standard_error = 0.0;  ///< of the measured norm; 0 when it is predicted
};

/// An average over seeds.
struct Moment {
    double value = not_available;
    double standard_error = 0.0;
};

/// A norm's gain and bias.
struct NormGradients {
    std::string name;  ///< "norm", or "norm_in" for slot `in`
    GradientNorm gain, bias;
};

/// The residual stream x (B, S, D) as it enters the stack or leaves a sublayer's block.
struct StreamMoments {
    Moment second_moment;           ///< E x^2 per entry, averaged over tokens
    Moment token_correlation;       ///< sum_{i != j} x_i.x_j / ((S - 1) sum_i x_i.x_i), i and j in one sequence
    Moment gradient_second_moment;  ///< E (dLoss/dx)^2 per entry, averaged over tokens
};

struct SublayerReport {
    StreamMoments stream;  ///< at the block's output
    std::vector<NormGradients> norms;
};

struct LayerReport {
    GradientNorm wq, wk, wv, wo, w1, w2;
    GradientNorm bq, bk, bv, bo, b1, b2;
    SublayerReport attention, feed_forward;
};

struct GradientReport {
    std::string placement;  ///< "pre-ln"
    std::string formula;    ///< "x + f(norm(x))"
    ReferenceModel model;
    std::size_t seeds = 0;  ///< 0: predicted
    StreamMoments input;
    std::vector<LayerReport> layers;
    NormGradients final_norm;
    GradientNorm readout;
    GradientNorm token_embedding, position_embedding;  ///< with a TokenBatch only
    Moment loss;
    std::vector<std::string> warnings;  ///< where the theory leaves the range in which it holds
};

/// A report of the form that placement P gives it, whose every number is not available.
template <class P>
GradientReport empty_report(const ReferenceModel& model) {
    GradientReport report;
    report.placement = P::name;
    report.formula = syntax::to_string(P::formula);
    report.model = model;
    LayerReport layer;
    for (SublayerReport* sublayer : {&layer.attention, &layer.feed_forward})
        for (const Label& slot : syntax::slots(P::formula)) sublayer->norms.push_back({norm_name(slot), {}, {}});
    report.layers.assign(model.layers, layer);
    report.final_norm.name = "final_norm";
    return report;
}

/// The number in an entry of a report.
template <class Entry>
auto& value_of(Entry& entry) {
    if constexpr (requires { entry.norm; }) return entry.norm;
    else return entry.value;
}

/// Calls `function(name, entry)` for every GradientNorm and Moment of a report, in a fixed order that depends only on
/// the number of layers and norms. Names are those of the parameters: `layers.3.attention.query.weight`.
template <class Report, class Function>
void for_each_entry(Report& report, Function&& function) {
    const auto& gradient = function;
    const auto& moment = function;
    const auto stream = [&](const std::string& name, auto& s) {
        moment(name + ".second_moment", s.second_moment);
        moment(name + ".token_correlation", s.token_correlation);
        moment(name + ".gradient_second_moment", s.gradient_second_moment);
    };
    const auto norm = [&](const std::string& name, auto& n) {
        gradient(name + ".gain", n.gain);
        gradient(name + ".bias", n.bias);
    };
    moment("loss", report.loss);
    stream("input", report.input);
    gradient("token_embedding.weight", report.token_embedding);
    gradient("position_embedding.weight", report.position_embedding);
    for (std::size_t l = 0; l < report.layers.size(); ++l) {
        auto& layer = report.layers[l];
        const std::string prefix = "layers." + std::to_string(l) + ".", attention = prefix + "attention.",
                          feed_forward = prefix + "feed_forward.";
        gradient(attention + "query.weight", layer.wq);
        gradient(attention + "query.bias", layer.bq);
        gradient(attention + "key.weight", layer.wk);
        gradient(attention + "key.bias", layer.bk);
        gradient(attention + "value.weight", layer.wv);
        gradient(attention + "value.bias", layer.bv);
        gradient(attention + "out.weight", layer.wo);
        gradient(attention + "out.bias", layer.bo);
        for (auto& n : layer.attention.norms) norm(attention + n.name, n);
        stream(attention + "stream", layer.attention.stream);
        gradient(feed_forward + "linear1.weight", layer.w1);
        gradient(feed_forward + "linear1.bias", layer.b1);
        gradient(feed_forward + "linear2.weight", layer.w2);
        gradient(feed_forward + "linear2.bias", layer.b2);
        for (auto& n : layer.feed_forward.norms) norm(feed_forward + n.name, n);
        stream(feed_forward + "stream", layer.feed_forward.stream);
    }
    norm("final_norm", report.final_norm);
    gradient("readout.weight", report.readout);
}

/// Calls `function(name, value, standard_error)` for every quantity of a report, in the order of `for_each_entry`.
template <class Report, class Function>
void for_each_quantity(Report& report, Function&& function) {
    for_each_entry(
        report, [&](const std::string& name, auto& entry) { function(name, value_of(entry), entry.standard_error); });
}

}  // namespace normplace
