// SPDX-License-Identifier: BSD-3-Clause
//
// Self-attention as a sublayer in moments: the softmax's averages (attention_moments.hpp), the norms inside
// (inner_norms.hpp), and what the fluctuations of the tokens' covariances add.
#pragma once

#include <cmath>
#include <vector>

#include <normplace/analysis/attention_blocks.hpp>
#include <normplace/analysis/attention_exchangeable.hpp>
#include <normplace/analysis/inner_norms.hpp>

namespace normplace {

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
        state_.pair_variance = fluctuation.relative;
        scales_ = projections_.effective(given_, square, square);
        if (layout_.is_exchangeable()) detail::attend_exchangeable(layout_, scales_, input_, table_, state_);
        else detail::attend_blocks(layout_, scales_, input_, table_, state_);
        // Pairs of different keys add what their covariances' fluctuations, seen by scores and values alike, leave.
        pair_variance_ = fluctuation.relative * fluctuation.spread * fluctuation.spread;
        mean_square_over_square_mean_ = std::exp(fluctuation.log_spread);
        const double score = scales_.query * scales_.key;
        layout_.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
            const double others = scales_.value * score * other_keys(i, j);
            state_.following[e] += others;
            state_.heads[e] += others * input_[e];
        });
        const WithinMean heads = mean_within(layout_, state_.heads);
        heads_norm_.forward(layout_, scales_, state_.heads);
        TokenKernel output = state_.heads;
        for (double& k : output) k *= scales_.out;
        fluctuation_.set(scales_, keys_on_average(), fluctuation, fluctuation.relative,
                         mean_within(layout_, state_.following).different, heads, mean_within(layout_, output));
        return output;
    }
    double transfer() const override { return fluctuation_.transfer(); }
    double fresh(const Fluctuation&) const override { return fluctuation_.fresh(); }
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
        projections_.correct(squares, projection_norms, inner_gates);
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
    double keys_on_average() const {
        const double n = static_cast<double>(layout_.sequence());
        return scales_.causal ? 0.5 * (n + 1.0) : n;
    }
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
    detail::AttentionFluctuation fluctuation_;
    double pair_variance_ = 0.0, mean_square_over_square_mean_ = 1.0;
};

}  // namespace normplace
