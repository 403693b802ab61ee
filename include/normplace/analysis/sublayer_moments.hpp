// SPDX-License-Identifier: BSD-3-Clause
//
// A sublayer in moments, as the placement's formula sees it: forward(covariances of the input) gives those of the
// output, backward(covariances of the output's gradient) gives those of the input's gradient and the expected squared
// gradient norm of every parameter. Here are self-attention and the feed-forward.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <normplace/analysis/activation_kernel.hpp>
#include <normplace/analysis/attention_blocks.hpp>
#include <normplace/analysis/attention_exchangeable.hpp>
#include <normplace/analysis/fluctuation.hpp>
#include <normplace/analysis/norm_moments.hpp>

namespace normplace {

/// BlockMoments takes any type with these members. The estimator's sublayers share this base, so that a placement's
/// walk is compiled once and not once for each sublayer.
class SublayerMoments {
public:
    virtual ~SublayerMoments() = default;
    /// Covariances of the output; `fluctuation` is that of the input (fluctuation.hpp).
    virtual TokenKernel forward(const TokenKernel& input, const Fluctuation& fluctuation) = 0;
    /// How the output's fluctuations follow the input's: d out_ij / d in_ij, on average over pairs of different tokens.
    virtual double transfer() const = 0;
    /// Relative variance of one pair's covariance that the matrices add.
    virtual double fresh(const Fluctuation& input) const = 0;
    /// Relative variance of the output's squared norm, for a given input.
    virtual double norm_variance() const = 0;
    /// Covariances of the gradient at the input. Needs forward's state.
    virtual TokenKernel backward(const TokenKernel& gradient) = 0;

    bool before_norm = false;  ///< whether the output is all that a norm reads

    /// Of the norms inside, in the order of `inner_norm_names`, and of a factor for each head; backward fills them.
    std::vector<NormSquares> inner_norms;
    std::vector<double> inner_gates;
};

namespace detail {

/// A norm inside a sublayer in moments: it divides by the root of what a token has there. Of order 1/K and 1/F it
/// neglects that its Jacobian takes the gradient's part along the token away.
struct InnerNorm {
    /// Fan-in times variance of the matrix before it, as if that had brought what the norm does, for an input of second
    /// moment q: what the tokens' second moments differ by is neglected.
    static double effective(double scale, bool normed, double q, double epsilon) {
        return normed ? scale / (scale * q + epsilon) : scale;
    }
    /// Divides entries by the roots of both tokens' second moments.
    static void divide(const TokenLayout& layout, const PerToken& roots, TokenKernel& kernel) {
        layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) { kernel[e] /= roots[i] * roots[j]; });
    }
    static PerToken roots(const TokenLayout& layout, const TokenKernel& kernel, double epsilon) {
        PerToken result = layout.diagonal_of(kernel);
        for (double& q : result) q = std::sqrt(q + epsilon);
        return result;
    }
};

/// What attention's projections become under norms of queries, keys and values.
class ProjectionNorms {
public:
    /// @param query_square, memory_square second moments of what W_q, and W_k and W_v, read
    AttentionScales effective(const AttentionScales& given, double query_square, double memory_square) {
        given_ = effective_ = given;
        const auto scale = [&](double s, bool normed, double q) {
            return InnerNorm::effective(s, normed, q, given.epsilon);
        };
        effective_.query = scale(given.query, given.norms.query, query_square);
        effective_.key = scale(given.key, given.norms.key, memory_square);
        effective_.value = scale(given.value, given.norms.value, memory_square);
        return effective_;
    }
    /// From the squares of matrices with the effective scales to those of the given ones and of the norms.
    void correct(AttentionSquares& squares, std::vector<NormSquares>& norms) const {
        const auto add = [&](bool normed, double effective, double given, double& weight, double* bias,
                             double norm_bias) {
            if (!normed) return;
            norms.push_back({weight * effective / given_.width, norm_bias});
            const double share = given > 0.0 ? effective / given : 0.0;
            weight *= share;
            if (bias) *bias *= share;
        };
        add(given_.norms.query, effective_.query, given_.query, squares.wq, &squares.bq, squares.bq);
        add(given_.norms.key, effective_.key, given_.key, squares.wk, nullptr, 0.0);
        if (given_.norms.key) squares.bk = std::numeric_limits<double>::quiet_NaN();
        add(given_.norms.value, effective_.value, given_.value, squares.wv, &squares.bv, squares.bv);
    }

private:
    AttentionScales given_, effective_;
};

/// What stands between the heads and W_o: a norm and a learned factor for each head.
class HeadsNorm {
public:
    /// heads becomes what W_o reads.
    void forward(const TokenLayout& layout, const AttentionScales& scales, TokenKernel& heads) {
        if (!scales.norms.heads) return;
        roots_ = InnerNorm::roots(layout, heads, scales.epsilon);
        InnerNorm::divide(layout, roots_, heads);
    }
    /// gradient, at what W_o reads, becomes that at the heads' output. `heads` is what W_o reads.
    void backward(const TokenLayout& layout, const AttentionScales& scales, const TokenKernel& heads,
                  TokenKernel& gradient, SublayerMoments& sublayer) const {
        const double square = scales.width * layout.inner(gradient, heads);
        if (scales.norms.heads) {
            sublayer.inner_norms.push_back({square, scales.width * layout.total(gradient)});
            InnerNorm::divide(layout, roots_, gradient);
        }
        // A norm behind them takes away what they have in common, and 1 - 1/H is left.
        const double left = scales.norms.heads || sublayer.before_norm ? 1.0 - 1.0 / scales.heads : 1.0;
        if (scales.norms.head_scale) sublayer.inner_gates.push_back(left * square);
    }

private:
    PerToken roots_;
};

}  // namespace detail

/// Self-attention or cross-attention.
class AnyAttentionMoments : public SublayerMoments {
public:
    /// The largest variance of one query's scores over its keys.
    virtual double score_variance() const = 0;

    AttentionSquares squares;  ///< set by backward
};

class AttentionMoments final : public AnyAttentionMoments {
public:
    AttentionMoments(const TokenLayout& layout, const AttentionScales& scales, SoftmaxTable& table)
        : layout_(layout), given_(scales), scales_(scales), table_(table) {}

    TokenKernel forward(const TokenKernel& input, const Fluctuation& fluctuation) override {
        input_ = input;
        const double square = layout_.trace(input) / layout_.tokens();
        scales_ = projections_.effective(given_, square, square);
        if (layout_.is_exchangeable()) detail::attend_exchangeable(layout_, scales_, input_, table_, state_);
        else detail::attend_blocks(layout_, scales_, input_, table_, state_);
        // Pairs of different keys add what their covariances' fluctuations, seen by scores and values alike, leave.
        pair_variance_ = fluctuation.relative * fluctuation.spread * fluctuation.spread;
        mean_square_over_square_mean_ = std::exp(fluctuation.log_spread);
        const double score = scales_.query * scales_.key;
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            state_.heads[e] += scales_.value * score * input_[e] * other_keys(i, j);
        });
        heads_norm_.forward(layout_, scales_, state_.heads);
        TokenKernel output = state_.heads;
        for (double& k : output) k *= scales_.out;
        return output;
    }
    /// Not noticeably, since each token gets almost the same average.
    double transfer() const override { return 0.0; }
    /// W_v and W_o have D rows each.
    double fresh(const Fluctuation& input) const override { return 2.0 / scales_.width + input.relative; }
    /// 2/D for each of W_v and W_o.
    double norm_variance() const override {
        return (scales_.output_projection && !scales_.norms.heads ? 4.0 : 2.0) / scales_.width;
    }

    TokenKernel backward(const TokenKernel& gradient) override {
        squares = {};
        inner_norms.clear();
        inner_gates.clear();
        output_gradient_ = gradient;
        if (scales_.output_projection) {
            squares.wo = scales_.width * scales_.width * layout_.inner(gradient, state_.heads);
            squares.bo = scales_.width * layout_.total(gradient);
        }
        TokenKernel heads_gradient = gradient;
        for (double& g : heads_gradient) g *= scales_.out;
        std::vector<NormSquares> projection_norms;
        heads_norm_.backward(layout_, scales_, state_.heads, heads_gradient, *this);
        TokenKernel result =
            layout_.is_exchangeable()
                ? detail::attend_exchangeable_backward(layout_, scales_, input_, state_, heads_gradient, squares)
                : detail::attend_blocks_backward(layout_, scales_, input_, state_, heads_gradient, squares);
        // The gradients at keys and values fluctuate along with the covariances, without a mean: they reach W_k and W_v
        // alone. The query's has a mean.
        TokenKernel product(result.size()), query(result.size());
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            query[e] = heads_gradient[e] * other_keys(i, j);
            product[e] = query[e] * input_[e];
            result[e] += scales_.query * scales_.key * scales_.value * query[e];
        });
        const double sum = scales_.width * scales_.width * layout_.total(product);
        squares.wq += scales_.key * scales_.value * sum;
        squares.wk += scales_.query * scales_.value * sum;
        squares.wv += scales_.query * scales_.key * sum;
        squares.bq += scales_.key * scales_.value * scales_.width * layout_.total(query);
        // All three are proportional to the square of the tokens' differences.
        for (double* square : {&squares.wq, &squares.wk, &squares.bq}) *square *= mean_square_over_square_mean_;
        projections_.correct(squares, projection_norms);
        inner_norms.insert(inner_norms.begin(), projection_norms.begin(), projection_norms.end());
        return result;
    }

    double score_variance() const override { return state_.score_variance; }
    /// Covariances of the heads' output, before W_o.
    const TokenKernel& heads() const { return state_.heads; }
    /// For each class of queries.
    const std::vector<SoftmaxMoments>& softmax() const { return state_.softmax; }
    /// What forward and backward were given.
    const TokenKernel& input() const { return input_; }
    const TokenKernel& output_gradient() const { return output_gradient_; }

private:
    double other_keys(std::size_t i, std::size_t j) const {
        const auto spread = [&](std::size_t token) {
            return 1.0 - state_.softmax[state_.softmax.size() == 1 ? 0 : token].concentration;
        };
        return pair_variance_ * spread(i) * spread(j);
    }

    const TokenLayout& layout_;
    AttentionScales given_, scales_;
    SoftmaxTable& table_;
    detail::ProjectionNorms projections_;
    detail::HeadsNorm heads_norm_;
    TokenKernel input_, output_gradient_;
    detail::AttentionState state_;
    double pair_variance_ = 0.0, mean_square_over_square_mean_ = 1.0;
};

/// Width D, feed-forward width F, and fan-in times variance of W_1 and W_2.
struct FeedForwardScales {
    double width = 1.0, feed_forward = 1.0;
    double linear1 = 0.0, linear2 = 0.0;
    bool hidden_norm = false;    ///< before W_2
    bool hidden_centred = true;  ///< and whether it takes the units' mean away
    double epsilon = 1e-5;       ///< of that norm
};

/// Expected squared gradient norms of the feed-forward's parameters.
struct FeedForwardSquares {
    double w1 = 0.0, w2 = 0.0, b1 = 0.0, b2 = 0.0;
};

/// W_2 phi(W_1 x): pre-activations s_1 K, activations kappa(s_1 K), output s_2 kappa. Backward with G: E||dW_2||^2 =
/// D F sum(G o kappa); G_1 = (s_2 D/F) G o kappa'; E||dW_1||^2 = D F sum(G_1 o K); input (s_1 F/D) G_1.
class FeedForwardMoments final : public SublayerMoments {
public:
    FeedForwardMoments(const TokenLayout& layout, const FeedForwardScales& scales, ActivationKernel& kernel)
        : layout_(layout), scales_(scales), kernel_(kernel) {}

    TokenKernel forward(const TokenKernel& input, const Fluctuation&) override {
        input_ = input;
        activated_ = TokenKernel(input.size());
        derivative_ = TokenKernel(input.size());
        const double s = scales_.linear1;
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const KernelPair pair =
                kernel_(s * input[layout_.diagonal(i)], s * input[layout_.diagonal(j)], s * input[e]);
            activated_[e] = pair.value;
            derivative_[e] = pair.derivative;
            if (scales_.hidden_norm && scales_.hidden_centred)  // at r = 0 it is E phi(u_1) E phi(u_2)
                activated_[e] -= kernel_(s * input[layout_.diagonal(i)], s * input[layout_.diagonal(j)], 0.0).value;
        });
        if (scales_.hidden_norm) {
            roots_ = detail::InnerNorm::roots(layout_, activated_, scales_.epsilon);
            detail::InnerNorm::divide(layout_, roots_, activated_);
        }
        TokenKernel output = activated_;
        for (double& k : output) k *= scales_.linear2;
        return output;
    }
    double transfer() const override {
        if (scales_.hidden_norm) {
            double slope = 0.0;
            for (const double root : roots_) slope += 1.0 / (root * root * static_cast<double>(roots_.size()));
            return slope * scales_.linear1 * scales_.linear2 * mean_within(layout_, derivative_).different;
        }
        return scales_.linear1 * scales_.linear2 * mean_within(layout_, derivative_).different;
    }
    /// F hidden units, and the D rows of W_2.
    double fresh(const Fluctuation&) const override { return 1.0 / scales_.width + 1.0 / scales_.feed_forward; }
    /// (E phi^4 / (E phi^2)^2 - 1) / F of the hidden units, 2/D of W_2.
    double norm_variance() const override {
        if (scales_.hidden_norm) return 2.0 / scales_.width;
        const double q = scales_.linear1 * layout_.trace(input_) / layout_.tokens();
        return kernel_.square_variance(q) / scales_.feed_forward + 2.0 / scales_.width;
    }

    TokenKernel backward(const TokenKernel& gradient) override {
        const double entries = scales_.width * scales_.feed_forward;
        output_gradient_ = gradient;
        squares.w2 = entries * layout_.inner(gradient, activated_);
        squares.b2 = scales_.width * layout_.total(gradient);
        TokenKernel inner = gradient;
        for (double& g : inner) g *= scales_.linear2 * scales_.width / scales_.feed_forward;
        inner_norms.clear();
        if (scales_.hidden_norm) {
            inner_norms.push_back(
                {scales_.feed_forward * layout_.inner(inner, activated_), scales_.feed_forward * layout_.total(inner)});
            detail::InnerNorm::divide(layout_, roots_, inner);
        }
        for (std::size_t e = 0; e < inner.size(); ++e) inner[e] *= derivative_[e];
        squares.w1 = entries * layout_.inner(inner, input_);
        squares.b1 = scales_.feed_forward * layout_.total(inner);
        for (double& g : inner) g *= scales_.linear1 * scales_.feed_forward / scales_.width;
        return inner;
    }

    /// What forward and backward were given.
    const TokenKernel& input() const { return input_; }
    const TokenKernel& output_gradient() const { return output_gradient_; }
    /// Covariances of the activations, and of the pre-activations' derivatives.
    const TokenKernel& activated() const { return activated_; }
    const TokenKernel& derivative() const { return derivative_; }

    FeedForwardSquares squares;

private:
    const TokenLayout& layout_;
    FeedForwardScales scales_;
    ActivationKernel& kernel_;
    TokenKernel input_, activated_, derivative_, output_gradient_;
    PerToken roots_;  // of the hidden norm
};

}  // namespace normplace
