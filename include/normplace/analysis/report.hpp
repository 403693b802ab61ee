// SPDX-License-Identifier: BSD-3-Clause
//
// What is predicted and what is measured, in one form: the gradient norm of every parameter and the moments of the
// residual stream, layer by layer. `predict` fills it from the theory, `measure` from the blocks.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/reference_model.hpp>
#include <normplace/analysis/validity.hpp>
#include <normplace/placement/placement.hpp>
#include <normplace/placement/plan.hpp>
#include <normplace/placement/print.hpp>

namespace normplace {

inline constexpr double not_available = std::numeric_limits<double>::quiet_NaN();

/// sqrt(E ||dLoss/dW||_F^2): the root mean square over seeds of the Frobenius norm. NaN where the model has no such
/// parameter or the theory no answer; in the second case `validity` is `fails`, and `limit` says why.
struct GradientNorm {
    double norm = not_available;
    double standard_error = 0.0;  ///< of the measured norm; 0 when it is predicted
    Validity validity = Validity::holds;
    Limit limit = Limit::none;  ///< why it does not hold
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

/// A learned factor of the block.
struct GateGradient {
    std::string name;
    GradientNorm gradient;
};

/// The residual stream x (B, S, D), the first where there are several, as it enters the stack or leaves a sublayer's
/// block.
struct StreamMoments {
    Moment second_moment;           ///< E x^2 per entry, averaged over tokens
    Moment token_correlation;       ///< sum_{i != j} x_i.x_j / ((S - 1) sum_i x_i.x_i), i and j in one sequence
    Moment gradient_second_moment;  ///< E (dLoss/dx)^2 per entry, averaged over tokens
};

struct SublayerReport {
    StreamMoments stream;  ///< at the block's output
    std::vector<NormGradients> norms;
    std::vector<GateGradient> gates;
    double branch_square = not_available;  ///< E f(x)^2 per entry; of a prediction only
};

struct LayerReport {
    GradientNorm wq, wk, wv, wo, w1, w2;
    GradientNorm bq, bk, bv, bo, b1, b2;
    SublayerReport attention, feed_forward;
};

/// A decoder layer has one beside what LayerReport holds.
struct CrossAttentionReport : SublayerReport {
    GradientNorm wq, wk, wv, wo;
    GradientNorm bq, bk, bv, bo;
};

struct GradientReport {
    std::string placement;  ///< "pre-ln"
    std::string formula;    ///< "x + f(norm(x))", and what is inside f
    ReferenceModel model;
    std::size_t seeds = 0;  ///< 0: predicted
    StreamMoments input;
    std::vector<LayerReport> layers;
    NormGradients final_norm;
    GradientNorm readout;
    GradientNorm token_embedding, position_embedding;  ///< with a TokenBatch only
    Moment loss;
    std::vector<std::string> warnings;  ///< where the theory leaves the range in which it holds

    /// E f(x)^2 of every sublayer, in their order: EncoderOptions::branch_squares.
    std::vector<double> branch_squares() const {
        std::vector<double> all;
        for (const LayerReport& layer : layers)
            all.insert(all.end(), {layer.attention.branch_square, layer.feed_forward.branch_square});
        return all;
    }
};

namespace detail {

/// The norms and gates that a block there has, those inside the sublayer last.
inline void name_parameters(const AnyPlacement& placement, const Depth& depth, SublayerReport& report) {
    const Plan there = plan(placement.formula, depth);
    for (const Plan::Norm& norm : there.norms) report.norms.push_back({norm_name(norm.slot), {}, {}});
    for (std::size_t g = 0; g < there.own_gates; ++g)
        report.gates.push_back({std::string(there.gates[g].name.view()), {}});
    const SublayerNorms inside = placement.inside(depth);
    const bool attends = depth.sublayer != SublayerKind::feed_forward;
    for (const auto& [there_is, name] : {std::pair{attends && inside.query, "query_norm"},
                                         {attends && inside.key, "key_norm"},
                                         {attends && inside.value, "value_norm"},
                                         {attends && inside.heads, "heads_norm"},
                                         {!attends && inside.hidden, "hidden_norm"}})
        if (there_is) report.norms.push_back({name, {}, {}});
    if (attends && inside.query_key_scale) report.gates.push_back({"query_key_scale", {}});
    if (attends && inside.head_scale) report.gates.push_back({"head_scale", {}});
}

}  // namespace detail

/// The model, with the kind of norm that the placement is made for, if it is made for one.
inline ReferenceModel with_own_norm(const AnyPlacement& placement, ReferenceModel model) {
    model.norm = placement.norm_or(model.norm);
    return model;
}

/// A report of the form that the placement gives it, whose every number is not available.
inline GradientReport empty_report(const AnyPlacement& placement, const ReferenceModel& model) {
    GradientReport report;
    report.placement = placement.name;
    report.formula = to_string(placement);
    report.model = with_own_norm(placement, model);
    const auto layer_of = [&](std::size_t l) {
        LayerReport layer;
        detail::name_parameters(placement, {l, model.layers, SublayerKind::attention}, layer.attention);
        detail::name_parameters(placement, {l, model.layers, SublayerKind::feed_forward}, layer.feed_forward);
        return layer;
    };
    if (syntax::has_one_shape(placement.formula) && !placement.has_norms_inside())
        report.layers.assign(model.layers, layer_of(1));
    else
        for (std::size_t l = 1; l <= model.layers; ++l) report.layers.push_back(layer_of(l));
    report.final_norm.name = "final_norm";
    return report;
}

/// The number in an entry of a report.
template <class Entry>
auto& value_of(Entry& entry) {
    if constexpr (requires { entry.norm; }) return entry.norm;
    else return entry.value;
}

namespace detail {

template <class Stream, class Function>
void for_each_stream_entry(const std::string& name, Stream& stream, Function& function) {
    function(name + ".second_moment", stream.second_moment);
    function(name + ".token_correlation", stream.token_correlation);
    function(name + ".gradient_second_moment", stream.gradient_second_moment);
}
template <class Norm, class Function>
void for_each_norm_entry(const std::string& name, Norm& norm, Function& function) {
    function(name + ".gain", norm.gain);
    function(name + ".bias", norm.bias);
}
template <class Sublayer, class Function>
void for_each_sublayer_entry(const std::string& prefix, Sublayer& sublayer, Function& function) {
    for (auto& norm : sublayer.norms) for_each_norm_entry(prefix + norm.name, norm, function);
    for (auto& gate : sublayer.gates) function(prefix + gate.name, gate.gradient);
    for_each_stream_entry(prefix + "stream", sublayer.stream, function);
}
/// Self-attention's or cross-attention's: whatever holds the matrices, and its block.
template <class Matrices, class Sublayer, class Function>
void for_each_attention_entry(const std::string& prefix, Matrices& matrices, Sublayer& sublayer, Function& function) {
    function(prefix + "query.weight", matrices.wq);
    function(prefix + "query.bias", matrices.bq);
    function(prefix + "key.weight", matrices.wk);
    function(prefix + "key.bias", matrices.bk);
    function(prefix + "value.weight", matrices.wv);
    function(prefix + "value.bias", matrices.bv);
    function(prefix + "out.weight", matrices.wo);
    function(prefix + "out.bias", matrices.bo);
    for_each_sublayer_entry(prefix, sublayer, function);
}
template <class Layer, class Function>
void for_each_feed_forward_entry(const std::string& prefix, Layer& layer, Function& function) {
    function(prefix + "linear1.weight", layer.w1);
    function(prefix + "linear1.bias", layer.b1);
    function(prefix + "linear2.weight", layer.w2);
    function(prefix + "linear2.bias", layer.b2);
    for_each_sublayer_entry(prefix, layer.feed_forward, function);
}

}  // namespace detail

/// Calls `function(name, entry)` for every GradientNorm and Moment of a report, in a fixed order that depends only on
/// the number of layers and norms. Names are those of the parameters: `layers.3.attention.query.weight`.
template <class Report, class Function>
void for_each_entry(Report& report, Function&& function) {
    function("loss", report.loss);
    detail::for_each_stream_entry("input", report.input, function);
    function("token_embedding.weight", report.token_embedding);
    function("position_embedding.weight", report.position_embedding);
    for (std::size_t l = 0; l < report.layers.size(); ++l) {
        auto& layer = report.layers[l];
        const std::string prefix = "layers." + std::to_string(l) + ".";
        detail::for_each_attention_entry(prefix + "attention.", layer, layer.attention, function);
        detail::for_each_feed_forward_entry(prefix + "feed_forward.", layer, function);
    }
    detail::for_each_norm_entry("final_norm", report.final_norm, function);
    function("readout.weight", report.readout);
}

/// Calls `function(name, value, standard_error)` for every quantity of a report, in the order of `for_each_entry`.
template <class Report, class Function>
void for_each_quantity(Report& report, Function&& function) {
    for_each_entry(
        report, [&](const std::string& name, auto& entry) { function(name, value_of(entry), entry.standard_error); });
}

}  // namespace normplace
