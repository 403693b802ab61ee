// SPDX-License-Identifier: BSD-3-Clause
//
// Cross-attention in moments: queries come from a decoder's stream, whose tokens differ by position under a causal
// mask; keys and values from the encoder's output, the memory, whose tokens are exchangeable, with three covariances q,
// c (within a sequence) and e (across). The score of query i with key a covaries with that of i' with b as s_q s_k
// K_ii' Km_ab, whatever stream and memory have in common: W_q and W_k are independent. So a query's scores are M
// independent N(0, v_i), v_i = s_q s_k K_ii (q - c), and those of two queries correlate by K_ii'/sqrt(K_ii K_i'i'): the
// softmax's moments (softmax_moments.hpp) are exact for Gaussian scores. With ov_ii' and R_ii' its overlap and response
// (at i = i', m2 and the response itself), G the gradient of the heads' output, i and i' positions of one sequence:
//
//     heads   s_v [c + ov_ii' (q - c)], across sequences s_v e
//     query   s_v s_k (q - c)^2 G_ii' R_ii', across 0
//     value   g = 1/M sum_ii' ov_ii' G_ii';  gc = 1/(M (M-1)) sum_ii' (1 - ov_ii') G_ii';  ge = 1/M^2 sum_ii' G_ii',
//             across
//     key     g = s_v s_q (q - c)/M sum_ii' R_ii' K_ii' G_ii';  gc = -g/(M-1);  0
//
// and the memory's gradient is s_v value + s_k key. What different layers send to the memory is uncorrelated, since
// each has its own W_v and W_k: their covariances add.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <normplace/analysis/self_attention_moments.hpp>

namespace normplace {

/// What cross-attention looks at: exchangeable tokens.
struct MemoryMoments {
    TokenLayout layout;
    TokenKernel kernel;
    Fluctuation fluctuation;
    TokenKernel gradient{0.0, 0.0, 0.0};  ///< every layer's backward adds what it sends
};

class CrossAttentionMoments final : public AnyAttentionMoments {
public:
    /// @param layout of the queries
    CrossAttentionMoments(const TokenLayout& layout, MemoryMoments& memory, const AttentionScales& scales,
                          SoftmaxTable& table)
        : layout_(layout), memory_(memory), given_(scales), scales_(scales), table_(table) {}

    TokenKernel forward(const TokenKernel& input, const Fluctuation& queries) override {
        input_ = input;
        query_pair_variance_ = queries.relative;
        scales_ = projections_.effective(given_, layout_.trace(input) / layout_.tokens(), memory_.kernel[0]);
        const double q = memory_.kernel[0], c = memory_.kernel[1], e = memory_.kernel[2], keys = key_count();
        spread_ = std::fmax(q - c, 0.0);
        score_variance_ = 0.0;
        softmax_.resize(layout_.classes());
        for (std::size_t i = 0; i < softmax_.size(); ++i) {
            const double v = keys > 1.0 ? scales_.query * scales_.key * input[layout_.diagonal(i)] * spread_ : 0.0;
            softmax_[i] = table_.at(keys, v, scales_.head_width());
            score_variance_ = std::fmax(score_variance_, v);
        }
        // The covariance of one pair of memory tokens fluctuates, as scores and values both see (see AttentionMoments).
        const Fluctuation& fluctuation = memory_.fluctuation;
        pair_variance_ = fluctuation.relative * spread_ * spread_;
        mean_square_over_square_mean_ = std::exp(fluctuation.log_spread);
        heads_ = following_ = TokenKernel(input.size());
        const double score = scales_.query * scales_.key, unit = keys > 1.0 ? (keys - 1.0) / (keys * keys) : 0.0;
        const std::vector<detail::QueryRatios> ratios = detail::query_ratios(layout_, input, softmax_);
        for_each_pair([&](std::size_t entry, std::size_t i, std::size_t j, bool within) {
            const double others = scales_.value * score * other_keys(i, j);
            heads_[entry] = scales_.value * e + others * input[entry];
            if (!within) return;
            const SoftmaxMoments::Ratios::Values ratio = ratios[i].with(ratios[j], input[entry]);
            heads_[entry] += scales_.value * (c - e + share(ratio.overlap) * spread_);
            following_[entry] = others + scales_.value * score * spread_ * spread_ * unit * ratio.response;
        });
        const WithinMean heads = mean_within(layout_, heads_);
        heads_norm_.forward(layout_, scales_, heads_);
        TokenKernel output = heads_;
        for (double& k : output) k *= scales_.out;
        fluctuation_.set(scales_, keys, queries, memory_.fluctuation.relative,
                         mean_within(layout_, following_).different, heads, mean_within(layout_, output));
        return output;
    }
    double transfer() const override { return fluctuation_.transfer(); }
    double fresh(const Fluctuation&) const override { return fluctuation_.fresh(); }
    double norm_variance() const override {
        return (scales_.output_projection && !scales_.norms.heads ? 4.0 : 2.0) / scales_.width;
    }

    TokenKernel backward(const TokenKernel& gradient) override {
        squares = {};
        inner_norms.clear();
        inner_gates.clear();
        const double entries = scales_.width * scales_.width, keys = key_count();
        if (scales_.output_projection) {
            squares.wo = entries * layout_.inner(gradient, heads_);
            squares.bo = scales_.width * layout_.total(gradient);
        }
        TokenKernel heads_gradient = gradient;
        for (double& g : heads_gradient) g *= scales_.out;
        heads_norm_.backward(layout_, scales_, heads_, heads_gradient, *this);
        TokenKernel query(gradient.size()), to_value(gradient.size()), to_other_values(gradient.size()),
            to_key(gradient.size()), other(gradient.size()), from_queries(gradient.size());
        const std::vector<detail::QueryRatios> ratios = detail::query_ratios(layout_, input_, softmax_);
        for_each_pair([&](std::size_t entry, std::size_t i, std::size_t j, bool within) {
            const double g = heads_gradient[entry];
            other[entry] = g * input_[entry] * other_keys(i, j);
            query[entry] = scales_.value * scales_.key * g * other_keys(i, j);
            to_value[entry] = to_other_values[entry] = to_key[entry] = 0.0;
            if (!within) {
                to_other_values[entry] = g;
                return;
            }
            const auto [overlap, response, key, slope] = ratios[i].with(ratios[j], input_[entry]);
            const double share = this->share(overlap), unit = keys > 1.0 ? (keys - 1.0) / (keys * keys) : 0.0;
            const double to_query = scales_.value * scales_.key * spread_ * spread_ * g * unit;
            // The covariance of two queries fluctuates, and their responses with it (see attend_exchangeable_backward).
            const double along = slope * ratios[i].fluctuation(ratios[j], input_[entry], query_pair_variance_);
            query[entry] += to_query * response;
            from_queries[entry] = to_query * along;
            to_value[entry] = share * g;
            to_other_values[entry] = (1.0 - share) * g;
            to_key[entry] = scales_.value * scales_.query * spread_ * g * unit * (key + along);
        });
        // Sums over all pairs of queries are shared among the memory's tokens, or among their pairs.
        const double tokens = memory_.layout.tokens(), others = keys > 1.0 ? keys - 1.0 : 1.0,
                     across = keys * (tokens > keys ? tokens - keys : 1.0);
        const double within_values = layout_.total_within(to_other_values);
        const TokenKernel value{layout_.total(to_value) / tokens, within_values / (tokens * others),
                                (layout_.total(to_other_values) - within_values) / (tokens / keys * across)};
        const double key_total = layout_.total(to_key) / tokens;
        const TokenKernel key{key_total, -key_total / others, 0.0};
        for (std::size_t i = 0; i < 3; ++i) memory_.gradient[i] += scales_.value * value[i] + scales_.key * key[i];

        const TokenLayout& memory = memory_.layout;
        const double fluctuating = entries * layout_.total(other);
        squares.wv = entries * memory.inner(value, memory_.kernel) + scales_.query * scales_.key * fluctuating;
        squares.bv = scales_.width * memory.total(value);
        squares.wq =
            entries * (layout_.inner(query, input_) + layout_.total(from_queries)) * mean_square_over_square_mean_;
        squares.bq = scales_.width * layout_.total(query) * mean_square_over_square_mean_;
        squares.wk = (entries * memory.inner(key, memory_.kernel) + scales_.query * scales_.value * fluctuating) *
                     mean_square_over_square_mean_;
        for (double& g : query) g *= scales_.query;
        std::vector<NormSquares> projection_norms;
        projections_.correct(squares, projection_norms, inner_gates);
        inner_norms.insert(inner_norms.begin(), projection_norms.begin(), projection_norms.end());
        return query;
    }

    double score_variance() const override { return score_variance_; }

private:
    double key_count() const { return static_cast<double>(memory_.layout.sequence()); }
    /// function(entry, row's class, column's class, within one sequence)
    template <class Function>
    void for_each_pair(Function&& function) const {
        for (const TokenLayout::Block& block : layout_.blocks()) {
            std::size_t entry = block.first;
            for (std::size_t i = 0; i < block.size; ++i)
                for (std::size_t j = 0; j < block.size; ++j)
                    function(entry++, block.row + i, block.column + j, block.within);
        }
    }
    /// ov, of two queries of this covariance, as carried to the exact value.
    double share(double covariance) const {
        const double keys = key_count(), product = scales_.query * scales_.key * covariance * spread_;
        return keys > 1.0 ? 1.0 / keys + product * (keys - 1.0) / (keys * keys) : 1.0;
    }
    double other_keys(std::size_t i, std::size_t j) const {
        return pair_variance_ * (1.0 - softmax_[i].concentration) * (1.0 - softmax_[j].concentration);
    }

    const TokenLayout& layout_;
    MemoryMoments& memory_;
    AttentionScales given_, scales_;
    SoftmaxTable& table_;
    detail::ProjectionNorms projections_;
    detail::HeadsNorm heads_norm_;
    TokenKernel input_, heads_, following_;
    detail::AttentionFluctuation fluctuation_;
    std::vector<SoftmaxMoments> softmax_;
    double spread_ = 0.0, score_variance_ = 0.0;
    double query_pair_variance_ = 0.0, pair_variance_ = 0.0, mean_square_over_square_mean_ = 1.0;
};

}  // namespace normplace
