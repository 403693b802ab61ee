// SPDX-License-Identifier: BSD-3-Clause
//
// One stack of layers in moments, an encoder's or a decoder's: forward with the covariances of activations between
// tokens, backward with those of gradients, both into the reports of the layers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <normplace/analysis/feed_forward_moments.hpp>
#include <normplace/analysis/placement_moments.hpp>
#include <normplace/analysis/reference_model.hpp>
#include <normplace/analysis/report_sums.hpp>
#include <normplace/analysis/self_attention_moments.hpp>

namespace normplace::detail {

inline std::string rounded(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

/// Attention over n keys is described while the scores' variance is below 2 ln n, where it does not settle on one.
class ScoreRange {
public:
    explicit ScoreRange(std::size_t keys) : keys_(keys), limit_(2.0 * std::log(static_cast<double>(keys))) {}
    bool exceeded(double variance) const { return excess(variance) > 1.0; }
    /// In units of the limit. One key gets all the weight, whatever its score.
    double excess(double variance) const { return keys_ > 1 ? variance / limit_ : 0.0; }
    double largest_excess() const { return excess(largest_); }
    std::size_t keys() const { return keys_; }
    void check(double variance, std::size_t layer) {
        if (!exceeded(variance)) return;
        if (first_ == 0 || layer < first_) first_ = layer;
        largest_ = std::fmax(largest_, variance);
    }
    void warn(const std::string& whose, std::vector<std::string>& warnings) const {
        if (first_ == 0) return;
        warnings.push_back(whose + " scores' variance reaches " + rounded(largest_) +
                           ", above 2 ln n = " + rounded(limit_) + " (n = " + std::to_string(keys_) +
                           "), where attention settles on single tokens: W_q and W_k have no prediction in such layers "
                           "(the first is layer " +
                           std::to_string(first_) +
                           "), and gradients at and below it are less certain, the further below the less, or have "
                           "none");
    }

private:
    std::size_t keys_;
    double limit_;
    std::size_t first_ = 0;
    double largest_ = 0.0;
};

/// What the loss's gradient `lean` h would add to a squared gradient norm, relative to what there is, where no norm
/// takes it away: that of a matrix whose input is alike as the hidden states h are.
inline double leaning_share(const TokenLayout& layout, const LossMoments& loss) {
    const double along = loss.lean * loss.lean * layout.inner(loss.hidden, loss.hidden);
    return along == 0.0 ? 0.0 : along / (layout.inner(loss.gradient, loss.hidden) * layout.tokens() * layout.tokens());
}

/// 1 - rho, over tokens of one sequence; 1 where there is one token.
inline double token_differences(const TokenLayout& layout, const TokenKernel& kernel) {
    const WithinMean mean = mean_within(layout, kernel);
    return layout.sequence() > 1 && mean.same > 0.0 ? (mean.same - mean.different) / mean.same : 1.0;
}

/// Where one layer's numbers go. A decoder's layer has cross-attention between the other two.
struct ReportedLayer {
    LayerReport* layer;
    CrossAttentionReport* cross_attention = nullptr;
};

/// What a decoder's layers look at beside their own stream.
class AnyMemory {
public:
    /// @param one_minus_rho how little alike its tokens are
    explicit AnyMemory(std::size_t tokens, double one_minus_rho = 1.0) : scores(tokens), one_minus_rho(one_minus_rho) {}
    virtual ~AnyMemory() = default;
    virtual std::unique_ptr<AnyAttentionMoments> attention(const TokenLayout& queries, const AttentionScales& scales,
                                                           SoftmaxTable& softmax) = 0;
    ScoreRange scores;
    double one_minus_rho;
};

/// Fan-in times variance of every matrix of a stack.
struct StackScales {
    const AnyPlacement& placement;
    const ReferenceModel& model;
    const Depth place{};  // of the stack

    Depth depth(std::size_t layer, SublayerKind kind) const {
        return {layer, model.layers, kind, place.stack, place.other_layers};
    }
    double scale(Role role, std::size_t fan_in, std::size_t fan_out, const Depth& depth) const {
        const double gain = placement.gain(role, depth);
        const double variance = model.initialization.variance(role, fan_in, fan_out, depth) * gain * gain;
        // A matrix of zeros has no unit vectors.
        if (placement.unit_matrices && variance > 0.0)
            return static_cast<double>(fan_in) / static_cast<double>(model.width);
        return static_cast<double>(fan_in) * variance;
    }
    AttentionScales attention(std::size_t layer, SublayerKind kind) const {
        const Depth depth = this->depth(layer, kind);
        const std::size_t d = model.width;
        return {.width = static_cast<double>(d),
                .query = scale(Role::query, d, d, depth),
                .key = scale(Role::key, d, d, depth),
                .value = scale(Role::value, d, d, depth),
                .out = model.output_projection ? scale(Role::out, d, d, depth) : 1.0,
                .output_projection = model.output_projection,
                .causal = model.causal,
                .heads = static_cast<double>(model.heads),
                .norms = placement.inside(depth),
                // UnitNorm's is of the length.
                .epsilon = model.norm == NormKind::unit_norm
                               ? model.epsilon * static_cast<double>(model.heads) / static_cast<double>(d)
                               : model.epsilon};
    }
    FeedForwardScales feed_forward(std::size_t layer) const {
        const Depth depth = this->depth(layer, SublayerKind::feed_forward);
        return {.width = static_cast<double>(model.width),
                .feed_forward = static_cast<double>(model.feed_forward),
                .linear1 = scale(Role::linear1, model.width, model.feed_forward, depth),
                .linear2 = scale(Role::linear2, model.feed_forward, model.width, depth),
                .hidden_norm = placement.inside(depth).hidden,
                .hidden_centred = model.norm == NormKind::layer_norm || model.norm == NormKind::unit_offset_layer_norm,
                .epsilon = model.epsilon};
    }
};

class StackMoments {
public:
    /// @param model the sizes of this stack
    /// @param memory null for a stack without cross-attention
    /// @param place of the stack: alone, or in an encoder-decoder; its layer and sublayer do not matter
    StackMoments(const AnyPlacement& placement, const ReferenceModel& model, ActivationKernel& kernel,
                 SoftmaxTable& softmax, const Depth& place, AnyMemory* memory = nullptr)
        : placement_(placement),
          model_(with_own_norm(placement, model)),
          place_(place),
          plans_(placement.formula),
          kernel_(kernel),
          softmax_(softmax),
          memory_(memory) {
        if (!placement.has_norms_inside()) return;
        for (std::size_t l = 1; l <= model_.layers; ++l)
            for (const SublayerKind kind :
                 {SublayerKind::attention, SublayerKind::cross_attention, SublayerKind::feed_forward})
                if (memory_ || kind != SublayerKind::cross_attention)
                    require_theory(placement.inside(scales_.depth(l, kind)));
    }
    StackMoments(const StackMoments&) = delete;
    StackMoments& operator=(const StackMoments&) = delete;

    void forward(const TokenLayout& layout, const TokenKernel& stream, const std::vector<ReportedLayer>& layers,
                 ScoreRange& scores, const ReportSums& sums) {
        // Only what enters each block is kept; backward runs the block forward once more.
        start(stream);
        streams_.reserve((memory_ ? 3 : 2) * model_.layers + 1);
        for (std::size_t l = 1; l <= model_.layers; ++l) {
            const ReportedLayer& report = layers[l - 1];
            const auto run = [&](SublayerKind kind, SublayerMoments& sublayer, SublayerReport& sublayer_report) {
                BlockMoments& block = make(layout, l, kind, sublayer);
                fluctuations_.push_back(fluctuations_.back());
                streams_.push_back(block.forward(streams_.back(), fluctuations_.back()));
                branches_.push_back(branches_.back() + block.branch_square());
                sums.add_branch(sublayer_report, block.branch_square());
                sums.add(sublayer_report.stream, layout, streams_.back()[0]);
            };
            AttentionMoments attention(layout, scales_.attention(l, SublayerKind::attention), softmax_);
            run(SublayerKind::attention, attention, report.layer->attention);
            scores.check(attention.score_variance(), l);
            if (memory_) {
                const auto cross =
                    memory_->attention(layout, scales_.attention(l, SublayerKind::cross_attention), softmax_);
                run(SublayerKind::cross_attention, *cross, *report.cross_attention);
                memory_->scores.check(cross->score_variance(), l);
            }
            FeedForwardMoments feed_forward(layout, scales_.feed_forward(l), kernel_);
            run(SublayerKind::feed_forward, feed_forward, report.layer->feed_forward);
        }
    }

    /// Whether a norm ends the first stream, and takes away what the gradient has along it.
    bool ends_in_norm() {
        return model_.layers > 0 && norm_of_sum(scales_.depth(model_.layers, SublayerKind::feed_forward));
    }

    /// The streams as they leave the last layer.
    const StreamKernels& output() const { return streams_.back(); }
    const StreamFluctuations& output_fluctuations() const { return fluctuations_.back(); }

    /// From the gradient where the streams leave the last layer to that at the stack's input. `last_norm` is added to
    /// the norm that ends the last block, if one does. Uses forward's state up.
    TokenKernel backward(const TokenLayout& layout, StreamKernels gradient, const std::vector<ReportedLayer>& layers,
                         const NormSquares& last_norm, const ScoreRange& scores, ReportSums& sums) {
        std::vector<std::pair<Label, double>> lent;  // squared gradients of gates that a layer's blocks share
        for (std::size_t l = model_.layers; l >= 1; --l) {
            const ReportedLayer& report = layers[l - 1];
            const auto run = [&](SublayerKind kind, auto& sublayer, SublayerReport& sublayer_report) {
                sums.add_gradient(sublayer_report.stream, layout, gradient[0]);
                streams_.pop_back();
                fluctuations_.pop_back();
                branches_.pop_back();
                [[maybe_unused]] const bool normalised =
                    norm_of_sum(scales_.depth(l, kind));  // before the block has its plan
                BlockMoments& block = make(layout, l, kind, sublayer);
                block.prepare(streams_.back(), fluctuations_.back());
                if constexpr (requires { sublayer.score_variance(); }) {
                    const ScoreRange& range = kind == SublayerKind::attention ? scores : memory_->scores;
                    sums.path.pass_attention(range.excess(sublayer.score_variance()), normalised, model_.causal);
                }
                gradient = block.backward(gradient);
                if (kind == SublayerKind::feed_forward && l == model_.layers)
                    add_to_closing_norm(scales_.depth(l, kind), last_norm, block);
                block.lend_gates(lent);
                if (kind == SublayerKind::attention) lent.clear();
                for (NormSquares& squares : sublayer.inner_norms) squares = norm_.own(squares);
                sums.add(sublayer_report, block, sublayer);
            };
            LayerReport& layer = *report.layer;
            FeedForwardMoments feed_forward(layout, scales_.feed_forward(l), kernel_);
            run(SublayerKind::feed_forward, feed_forward, layer.feed_forward);
            const FeedForwardSquares& s = feed_forward.squares;
            sums.add(layer.w1, s.w1), sums.add(layer.w2, s.w2), sums.add(layer.b1, s.b1), sums.add(layer.b2, s.b2);
            if (memory_) {
                const auto cross =
                    memory_->attention(layout, scales_.attention(l, SublayerKind::cross_attention), softmax_);
                run(SublayerKind::cross_attention, *cross, *report.cross_attention);
                judge(*report.cross_attention, memory_->scores.exceeded(cross->score_variance()),
                      memory_->one_minus_rho);
                add(*report.cross_attention, cross->squares, sums);
            }
            AttentionMoments attention(layout, scales_.attention(l, SublayerKind::attention), softmax_);
            run(SublayerKind::attention, attention, layer.attention);
            const double one_minus_rho = token_differences(layout, streams_.back()[0]);
            judge(layer, scores.exceeded(attention.score_variance()), one_minus_rho);
            add(layer, attention.squares, sums);
            judge_gain_before(scales_.depth(l, SublayerKind::attention), scores.keys(), one_minus_rho, layer.attention);
        }
        return input_gradient(gradient);
    }

private:
    /// Norms that leave second moment 1; or, of queries and keys, length 1 and the factors that make this of it.
    void require_theory(const SublayerNorms& inside) const {
        const bool on_the_sphere = model_.norm == NormKind::unit_norm &&
                                   inside == SublayerNorms{.query = true, .key = true, .query_key_scale = true};
        const bool normalised = normalises(model_.norm) && !inside.query_key_scale;
        if (inside != SublayerNorms{} && !normalised && !on_the_sphere)
            throw std::invalid_argument("predict: " + std::string(placement_.name) + " has " + to_string(inside) +
                                        ", for which there is no theory when the norms are " +
                                        std::string(name(model_.norm)));
    }
    /// Every stream starts as the stack's input.
    void start(const TokenKernel& input) {
        const double width = static_cast<double>(model_.width);
        const std::size_t count = placement_.streams();
        StreamKernels first(count);
        StreamFluctuations fluctuations(count);
        for (std::size_t s = 0; s < count; ++s) {
            for (std::size_t t = 0; t < count; ++t) first(s, t) = input;
            fluctuations[s] = {0.0, 1.0 / width, 2.0 / width, 0.0};
        }
        streams_.assign(1, std::move(first));
        fluctuations_.assign(1, std::move(fluctuations));
        branches_.assign(1, 0.0);
    }
    static TokenKernel input_gradient(const StreamKernels& gradient) {
        TokenKernel sum = gradient[0];
        for (std::size_t s = 0; s < gradient.streams(); ++s)
            for (std::size_t t = 0; t < gradient.streams(); ++t)
                if (s + t > 0)
                    for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += gradient(s, t)[e];
        return sum;
    }

    /// One block after another, in the same memory.
    BlockMoments& make(const TokenLayout& layout, std::size_t layer, SublayerKind kind, SublayerMoments& sublayer) {
        Depth depth = scales_.depth(layer, kind);
        depth.earlier_branches = branches_.back();
        const Plan& plan = plans_.at(depth);
        if (block_) block_->become(plan, sublayer);
        else block_.emplace(plan, layout, static_cast<double>(model_.width), norm_, sublayer);
        return *block_;
    }
    void add_to_closing_norm(const Depth& depth, const NormSquares& last_norm, BlockMoments& block) {
        if (!norm_of_sum(depth)) return;
        const Plan& plan = plans_.at(depth);
        NormSquares& norm = block.norms[plan.steps[plan.results[0][0].source - plan.streams].index];
        const NormSquares more = norm_.own(last_norm);
        norm.gain += more.gain;
        norm.bias += more.bias;
    }
    /// Whether the first stream leaves the block as the value of a norm.
    bool norm_of_sum(const Depth& depth) {
        const Plan& plan = plans_.at(depth);
        return is_norm(plan, plan.results[0]) && normalises(norm_.kind);
    }

    template <class Report>
    void judge(Report& report, bool scores_too_large, double one_minus_rho) const {
        for (GradientNorm* gradient : {&report.wq, &report.wk, &report.bq}) {
            if (scores_too_large) ReportSums::judge(*gradient, {Validity::fails, Limit::large_scores});
            ReportSums::judge(*gradient, judge_alignment(one_minus_rho, static_cast<double>(model_.width)));
        }
    }
    /// Of the norm that self-attention reads, if it reads one.
    void judge_gain_before(const Depth& depth, std::size_t tokens, double one_minus_rho, SublayerReport& report) {
        const Plan& plan = plans_.at(depth);
        const double keys = static_cast<double>(tokens) * (model_.causal ? 0.5 : 1.0);
        for (const Plan::Step& step : plan.steps)
            if (step.kind == Node::Kind::sublayer && is_norm(plan, step.input))
                ReportSums::judge(report.norms[plan.steps[step.input[0].source - plan.streams].index].gain,
                                  judge_gain(keys, one_minus_rho, static_cast<double>(model_.width)));
    }

    template <class Report>
    void add(Report& report, const AttentionSquares& s, const ReportSums& sums) const {
        sums.add(report.wq, s.wq), sums.add(report.wk, s.wk), sums.add(report.wv, s.wv);
        sums.add(report.bq, s.bq), sums.add(report.bk, s.bk), sums.add(report.bv, s.bv);
        if (model_.output_projection) sums.add(report.wo, s.wo), sums.add(report.bo, s.bo);
    }

    const AnyPlacement placement_;
    const ReferenceModel model_;
    const Depth place_;
    Plans plans_;
    const NormMoments norm_{model_.norm, static_cast<double>(model_.width), model_.epsilon};
    const StackScales scales_{placement_, model_, place_};
    ActivationKernel& kernel_;
    SoftmaxTable& softmax_;
    AnyMemory* memory_;
    std::optional<BlockMoments> block_;
    std::vector<StreamKernels> streams_;
    std::vector<StreamFluctuations> fluctuations_;
    std::vector<double> branches_;  // the sum of E f(x)^2 over the sublayers so far
};

}  // namespace normplace::detail
