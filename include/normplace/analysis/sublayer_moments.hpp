// SPDX-License-Identifier: BSD-3-Clause
//
// A sublayer in moments, as the placement's formula sees it: forward(covariances of the input) gives those of the
// output, backward(covariances of the output's gradient) gives those of the input's gradient and the expected squared
// gradient norm of every parameter. Here are self-attention and the feed-forward.
#pragma once

#include <cmath>

#include <normplace/analysis/activation_kernel.hpp>
#include <normplace/analysis/attention_blocks.hpp>
#include <normplace/analysis/attention_exchangeable.hpp>
#include <normplace/analysis/fluctuation.hpp>

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
};

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
        : layout_(layout), scales_(scales), table_(table) {}

    TokenKernel forward(const TokenKernel& input, const Fluctuation& fluctuation) override {
        input_ = input;
        if (layout_.is_exchangeable()) detail::attend_exchangeable(layout_, scales_, input_, table_, state_);
        else detail::attend_blocks(layout_, scales_, input_, table_, state_);
        // Pairs of different keys add what their covariances' fluctuations, seen by scores and values alike, leave.
        pair_variance_ = fluctuation.relative * fluctuation.spread * fluctuation.spread;
        mean_square_over_square_mean_ = std::exp(fluctuation.log_spread);
        const double score = scales_.query * scales_.key;
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            state_.heads[e] += scales_.value * score * input_[e] * other_keys(i, j);
        });
        TokenKernel output = state_.heads;
        for (double& k : output) k *= scales_.out;
        return output;
    }
    /// Not noticeably, since each token gets almost the same average.
    double transfer() const override { return 0.0; }
    /// W_v and W_o have D rows each.
    double fresh(const Fluctuation& input) const override { return 2.0 / scales_.width + input.relative; }
    /// 2/D for each of W_v and W_o.
    double norm_variance() const override { return (scales_.output_projection ? 4.0 : 2.0) / scales_.width; }

    TokenKernel backward(const TokenKernel& gradient) override {
        squares = {};
        output_gradient_ = gradient;
        if (scales_.output_projection) {
            squares.wo = scales_.width * scales_.width * layout_.inner(gradient, state_.heads);
            squares.bo = scales_.width * layout_.total(gradient);
        }
        TokenKernel heads_gradient = gradient;
        for (double& g : heads_gradient) g *= scales_.out;
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
    AttentionScales scales_;
    SoftmaxTable& table_;
    TokenKernel input_, output_gradient_;
    detail::AttentionState state_;
    double pair_variance_ = 0.0, mean_square_over_square_mean_ = 1.0;
};

/// Width D, feed-forward width F, and fan-in times variance of W_1 and W_2.
struct FeedForwardScales {
    double width = 1.0, feed_forward = 1.0;
    double linear1 = 0.0, linear2 = 0.0;
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
        });
        TokenKernel output = activated_;
        for (double& k : output) k *= scales_.linear2;
        return output;
    }
    double transfer() const override {
        return scales_.linear1 * scales_.linear2 * mean_within(layout_, derivative_).different;
    }
    /// F hidden units, and the D rows of W_2.
    double fresh(const Fluctuation&) const override { return 1.0 / scales_.width + 1.0 / scales_.feed_forward; }
    /// (E phi^4 / (E phi^2)^2 - 1) / F of the hidden units, 2/D of W_2.
    double norm_variance() const override {
        const double q = scales_.linear1 * layout_.trace(input_) / layout_.tokens();
        return kernel_.square_variance(q) / scales_.feed_forward + 2.0 / scales_.width;
    }

    TokenKernel backward(const TokenKernel& gradient) override {
        const double entries = scales_.width * scales_.feed_forward;
        output_gradient_ = gradient;
        squares.w2 = entries * layout_.inner(gradient, activated_);
        squares.b2 = scales_.width * layout_.total(gradient);
        TokenKernel inner = gradient;
        for (std::size_t e = 0; e < inner.size(); ++e)
            inner[e] *= scales_.linear2 * scales_.width / scales_.feed_forward * derivative_[e];
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
};

}  // namespace normplace
