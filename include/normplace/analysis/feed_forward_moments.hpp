// SPDX-License-Identifier: BSD-3-Clause
//
// The feed-forward as a sublayer in moments: W_2 phi(W_1 x), perhaps with a norm of the hidden units before W_2.
#pragma once

#include <cstddef>

#include <normplace/analysis/activation_kernel.hpp>
#include <normplace/analysis/inner_norms.hpp>

namespace normplace {

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
