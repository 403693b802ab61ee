// SPDX-License-Identifier: BSD-3-Clause
//
// Sublayers after one optimizer step, in moments: what the step of their own matrices and that of everything below make
// of the new tokens' activations.
#pragma once

#include <normplace/analysis/activation_kernel.hpp>
#include <normplace/analysis/attention_blocks.hpp>
#include <normplace/analysis/attention_exchangeable.hpp>
#include <normplace/analysis/crossing.hpp>
#include <normplace/analysis/trained_matrix.hpp>

namespace normplace {

/// The activations at one place after the step. With g_i the gradient there of old token i, new activation_j =
/// (independent part)_j - sum_i amplitude_ij g_i.
struct SteppedActivations {
    TokenKernel covariance;   ///< K', of new tokens with new ones
    CrossedKernel crossed;    ///< C, of old tokens before the step with new ones after it
    CrossedKernel amplitude;  ///< a
    TokenKernel change;       ///< of the new tokens' changes, to first order in the learning rate
};

/// A step of one weight matrix with its bias.
struct MatrixStep {
    double scale = 0.0;  ///< fan-in times variance
    double fan_in = 1.0;
    StepDecomposition weight, bias;
};

namespace detail {

/// What the sublayers of one network have in common.
struct StepContext {
    const Crossing& crossing;
    double learning_rate;
    double weight_decay;
    double kept() const { return 1.0 - learning_rate * weight_decay; }
};

/// a <- s a + eta (pull m C + the bias's pull); C <- s C; K' <- s K' + noise eta^2 m K', still without the coherent
/// part a^T G a.
inline void step_matrix(const StepContext& context, const MatrixStep& matrix, SteppedActivations& x) {
    const double eta = context.learning_rate, scale = matrix.scale * context.kept();
    for (std::size_t e = 0; e < x.crossed.size(); ++e) {
        x.amplitude[e] =
            scale * x.amplitude[e] + eta * (matrix.weight.pull * matrix.fan_in * x.crossed[e] + matrix.bias.pull);
        x.crossed[e] *= scale;
    }
    const double noise = eta * eta * matrix.fan_in * matrix.weight.noise, bias_noise = eta * eta * matrix.bias.noise;
    for (std::size_t e = 0; e < x.covariance.size(); ++e) {
        x.change[e] = scale * context.kept() * x.change[e] + noise * x.covariance[e] + bias_noise;
        x.covariance[e] = (scale * context.kept() + noise) * x.covariance[e] + bias_noise;
    }
}
/// K' += a^T G a.
inline void add_coherent(const StepContext& context, const FoldedKernel& gradient, SteppedActivations& x) {
    const TokenKernel coherent = context.crossing.between(x.amplitude, gradient, x.amplitude);
    for (std::size_t e = 0; e < coherent.size(); ++e) {
        x.covariance[e] += coherent[e];
        x.change[e] += coherent[e];
    }
}

}  // namespace detail

/// One sublayer after the step.
class SublayerStep {
public:
    virtual ~SublayerStep() = default;
    /// From the activations at its input to those at its output.
    virtual SteppedActivations step(const detail::StepContext& context, SteppedActivations input) = 0;
};

/// What self-attention's step needs of the network before it.
class AttentionStep final : public SublayerStep {
public:
    AttentionStep(const AttentionScales& scales, SoftmaxTable& table) : scales_(scales), table_(table) {}

    MatrixStep query, key, value, out;
    FoldedKernel heads_gradient, output_gradient;
    std::vector<detail::QueryRatios> queries;  ///< of old tokens

    SteppedActivations step(const detail::StepContext& context, SteppedActivations x) override {
        const Crossing& crossing = context.crossing;
        const TokenLayout& layout = crossing.after();
        entering_ = x.covariance;
        const double kept = context.kept(), square = kept * kept, eta = context.learning_rate;
        const auto noise = [&](const MatrixStep& matrix) { return eta * eta * matrix.fan_in * matrix.weight.noise; };
        const AttentionScales stepped{scales_.width,
                                      scales_.query * square + noise(query),
                                      scales_.key * square + noise(key),
                                      scales_.value * square + noise(value),
                                      scales_.out,
                                      scales_.output_projection,
                                      scales_.causal,
                                      scales_.heads};
        detail::AttentionState state;
        if (layout.is_exchangeable()) detail::attend_exchangeable(layout, stepped, x.covariance, table_, state);
        else detail::attend_blocks(layout, stepped, x.covariance, table_, state);

        TokenKernel change = changed_scores(layout, state, x, noise(query), noise(key));
        const CrossedKernel input = x.crossed;
        detail::step_matrix(context, value, x);
        attend_crossed(context, state, input, x);
        x.covariance = state.heads;
        for (double& k : x.covariance) k += eta * eta * value.bias.noise;
        add(change, averaged(layout, state, x.change));
        x.change = std::move(change);
        detail::add_coherent(context, heads_gradient, x);
        if (!scales_.output_projection) return x;
        detail::step_matrix(context, out, x);
        detail::add_coherent(context, output_gradient, x);
        return x;
    }

private:
    static void add(detail::ShortArray& to, const detail::ShortArray& from) {
        for (std::size_t e = 0; e < to.size(); ++e) to[e] += from[e];
    }
    /// sum_kk' A_ik A_jk' X_kk' Y_kk', with X and Y centred over the keys of i and of j.
    template <class Left, class Right>
    static detail::ShortArray over_keys(const detail::ShortArray& x, const detail::ShortArray& y, const Left& left,
                                        const Right& right) {
        detail::ShortArray both = x, x_left = x, y_left = y, x_right = x, y_right = y;
        for (std::size_t e = 0; e < x.size(); ++e) both[e] *= y[e];
        left(both), right(both), left(x_left), left(y_left), right(x_right), right(y_right);
        detail::ShortArray x_mean = x_left, y_mean = y_left;
        right(x_mean), right(y_mean);
        for (std::size_t e = 0; e < x.size(); ++e) {
            x_left[e] *= y_left[e];
            x_right[e] *= y_right[e];
        }
        right(x_left), left(x_right);
        for (std::size_t e = 0; e < x.size(); ++e) both[e] += x_mean[e] * y_mean[e] - x_left[e] - x_right[e];
        return both;
    }

    /// A K A^T with the new weights.
    TokenKernel averaged(const TokenLayout& layout, const detail::AttentionState& state, TokenKernel k) const {
        if (layout.is_exchangeable()) {
            const double spread = k[0] - k[1];
            return {k[1] + state.softmax[0].concentration * spread,
                    k[1] + spread / static_cast<double>(layout.sequence()), 0.0};
        }
        detail::UniformAverage(layout.sequence(), scales_.causal).both(k.data());
        return k;
    }

    /// How the heads' output changes with the scores, to first order: that of query j with key k covaries with that of
    /// j' with k' as (s_q R_jj' + n_q K_jj') s_k K_kk' + s_q K_jj' (s_k R_kk' + n_k K_kk'), R being the change at the
    /// input.
    TokenKernel changed_scores(const TokenLayout& layout, const detail::AttentionState& state,
                               const SteppedActivations& x, double query_noise, double key_noise) const {
        const TokenKernel &k = x.covariance, &r = x.change;
        TokenKernel from_queries = k, keys = k;
        for (std::size_t e = 0; e < k.size(); ++e) {
            from_queries[e] = (scales_.query * r[e] + query_noise * k[e]) * scales_.key;
            keys[e] = scales_.query * (scales_.key * r[e] + key_noise * k[e]);
        }
        if (layout.is_exchangeable()) {
            if (layout.sequence() == 1) return TokenKernel(3);
            const SoftmaxMoments& softmax = state.softmax[0];
            const double spread = k[0] - k[1], keys_spread = keys[0] - keys[1];
            const double overlap = softmax.response_overlap(k[0] > 0.0 ? k[1] / k[0] : 0.0);
            const auto at = [&](std::size_t e, double response) {
                return scales_.value * spread * (from_queries[e] * spread + k[e] * keys_spread) * response;
            };
            return {at(0, softmax.response), at(1, overlap), 0.0};
        }
        const detail::UniformAverage average(layout.sequence(), scales_.causal);
        const auto left = [&](TokenKernel& y) { average.left(y.data()); };
        const auto right = [&](TokenKernel& y) { average.right(y.data()); };
        const TokenKernel plain = over_keys(k, k, left, right), changed = over_keys(keys, k, left, right);
        const std::vector<detail::QueryRatios> ratios = detail::query_ratios(layout, k, state.softmax);
        TokenKernel result(k.size());
        layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            result[e] = scales_.value * ratios[i].with(ratios[j], k[e]).response *
                        (from_queries[e] * plain[e] + k[e] * changed[e]);
        });
        return result;
    }

    /// Old queries with new ones: the crossed covariances and the amplitude of the values become those of the heads'
    /// output, C <- A C_v A^T + sc C o T_v, with T_v the T of attention_blocks.hpp with C_v in one of its factors, and
    /// a <- the same of a_v. The steps of W_q and W_k change the scores alike for tokens that are alike, which adds eta
    /// C o T s_v (s_k pull_q + s_q pull_k) m.
    void attend_crossed(const detail::StepContext& context, const detail::AttentionState& state, const CrossedKernel& c,
                        SteppedActivations& x) const {
        const Crossing& crossing = context.crossing;
        if (crossing.before().is_exchangeable()) return;  // all old and new tokens are alike in pairs
        const TokenLayout& layout = crossing.after();
        const std::vector<detail::QueryRatios> ratios = detail::query_ratios(layout, entering_, state.softmax);
        const auto old = [&](CrossedKernel& y) { crossing.average_old(y); };
        const auto young = [&](CrossedKernel& y) { crossing.average_new(y); };
        const CrossedKernel values = over_keys(c, x.crossed, old, young), pulls = over_keys(c, x.amplitude, old, young);
        const CrossedKernel keys = over_keys(c, c, old, young);
        crossing.average(x.crossed);
        crossing.average(x.amplitude);
        const double score = scales_.query * scales_.key * context.kept() * context.kept();
        const double strength = context.learning_rate * scales_.value * scales_.width *
                                (scales_.key * query.weight.pull + scales_.query * key.weight.pull);
        crossing.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const SoftmaxMoments::Ratios::Values ratio = queries[i].with(ratios[j], c[e]);
            x.amplitude[e] += score * ratio.overlap * pulls[e] + strength * ratio.response * c[e] * keys[e];
            x.crossed[e] += score * ratio.overlap * values[e];
        });
    }

    AttentionScales scales_;
    SoftmaxTable& table_;
    TokenKernel entering_;
};

/// What the feed-forward's step needs of the network before it.
class FeedForwardStep final : public SublayerStep {
public:
    explicit FeedForwardStep(ActivationKernel& kernel) : kernel_(kernel) {}

    MatrixStep linear1, linear2;
    PerToken pre_activation;  ///< second moments before the step, of old tokens
    FoldedKernel hidden_gradient, output_gradient;

    SteppedActivations step(const detail::StepContext& context, SteppedActivations x) override {
        const Crossing& crossing = context.crossing;
        detail::step_matrix(context, linear1, x);
        detail::add_coherent(context, hidden_gradient, x);
        const TokenLayout& layout = crossing.after();
        const PerToken q = layout.diagonal_of(x.covariance);
        crossing.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const KernelPair pair = kernel_(pre_activation[i], q[j], x.crossed[e]);
            x.amplitude[e] *= pair.derivative;
            x.crossed[e] = pair.value;
        });
        layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const KernelPair pair = kernel_(q[i], q[j], x.covariance[e]);
            x.change[e] *= pair.derivative;
            x.covariance[e] = pair.value;
        });
        detail::step_matrix(context, linear2, x);
        detail::add_coherent(context, output_gradient, x);
        return x;
    }

private:
    ActivationKernel& kernel_;
};

}  // namespace normplace
