// SPDX-License-Identifier: BSD-3-Clause
//
// The two sublayers in moments, as the placement's formula sees them: forward(covariances of the input) gives those of
// the output, backward(covariances of the output's gradient) gives those of the input's gradient and the expected
// squared gradient norm of every parameter.
#pragma once

#include <cmath>

#include <normplace/analysis/activation_kernel.hpp>
#include <normplace/analysis/attention_blocks.hpp>
#include <normplace/analysis/attention_exchangeable.hpp>

namespace normplace {

class AttentionMoments {
public:
    AttentionMoments(const TokenLayout& layout, const AttentionScales& scales, SoftmaxTable& table)
        : layout_(layout), scales_(scales), table_(table) {}

    TokenKernel forward(const TokenKernel& input) {
        input_ = input;
        if (layout_.is_exchangeable()) detail::attend_exchangeable(layout_, scales_, input_, table_, state_);
        else detail::attend_blocks(layout_, scales_, input_, table_, state_);
        TokenKernel output = state_.heads;
        for (double& k : output) k *= scales_.out;
        return output;
    }

    TokenKernel backward(const TokenKernel& gradient) {
        squares = {};
        if (scales_.output_projection) {
            squares.wo = scales_.width * scales_.width * layout_.inner(gradient, state_.heads);
            squares.bo = scales_.width * layout_.total(gradient);
        }
        TokenKernel heads_gradient = gradient;
        for (double& g : heads_gradient) g *= scales_.out;
        return layout_.is_exchangeable()
                   ? detail::attend_exchangeable_backward(layout_, scales_, input_, state_, heads_gradient, squares)
                   : detail::attend_blocks_backward(layout_, scales_, input_, state_, heads_gradient, squares);
    }

    /// The largest variance of one query's scores over its keys.
    double score_variance() const { return state_.score_variance; }

    AttentionSquares squares;

private:
    const TokenLayout& layout_;
    AttentionScales scales_;
    SoftmaxTable& table_;
    TokenKernel input_;
    detail::AttentionState state_;
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
class FeedForwardMoments {
public:
    FeedForwardMoments(const TokenLayout& layout, const FeedForwardScales& scales, ActivationKernel& kernel)
        : layout_(layout), scales_(scales), kernel_(kernel) {}

    TokenKernel forward(const TokenKernel& input) {
        input_ = input;
        activated_.resize(input.size());
        derivative_.resize(input.size());
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

    TokenKernel backward(const TokenKernel& gradient) {
        const double entries = scales_.width * scales_.feed_forward;
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

    FeedForwardSquares squares;

private:
    const TokenLayout& layout_;
    FeedForwardScales scales_;
    ActivationKernel& kernel_;
    TokenKernel input_, activated_, derivative_;
};

}  // namespace normplace
