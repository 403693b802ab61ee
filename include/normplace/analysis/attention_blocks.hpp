// SPDX-License-Identifier: BSD-3-Clause
//
// Attention of tokens that are not exchangeable: under a causal mask, or with given token covariances. A is the average
// that attention takes when all scores are equal, row i over its n_i keys (all, or those up to i); o is the elementwise
// product. To second order in the scores, sc = s_q s_k:
//
//     M = A K A^T, M2 = A (K o K) A^T, P = ((A K) o (A K)) A^T, T = M2 - P - P^T + M o M
//     heads = s_v [M + sc K o T]
//     H = G o K, X = A^T((A K) o (H A)), Y = (A^T H A) o K - X - X^T + A^T (H o M) A
//     value gradient  A^T G A + sc Y
//     query gradient  s_k s_v G o T
//     key gradient    s_q s_v Y
//
// T is the mean over both queries' keys of K_jj' times itself less the means over either query's keys: a query with one
// key has no weights to vary. What is neglected of that order: keys far from the mean of all get more than their share
// of the weights on average.
//
// Every term beyond the average belongs to one pair of queries, so it can be carried to the value that it has for
// exchangeable tokens exactly: the ratio is that of the softmax's overlap (or response) at the score variance of the
// queries, over as many exchangeable keys as scatter like theirs. Measured, ResPostNorm under a causal mask, n 64 to
// 1024: with the number of keys itself W_q and W_k were 14 to 60 % too high in the last layer, so they are 2 to 18 %.
#pragma once

#include <normplace/analysis/attention_moments.hpp>
#include <normplace/analysis/uniform_average.hpp>

namespace normplace::detail {

/// How far the exact terms of a pair of queries are from the second-order ones, one half for each query. Queries of
/// different numbers of keys or score variances meet half-way, which costs one power for each pair.
class QueryRatios {
public:
    QueryRatios() = default;
    QueryRatios(const SoftmaxMoments& softmax, double second_moment) {
        const SoftmaxMoments::Ratios ratios = softmax.ratios();
        root_ = std::sqrt(std::fmax(second_moment, 0.0));
        root_linear_ = std::sqrt(ratios.linear);
        root_quadratic_ = std::sqrt(ratios.quadratic);
        root_higher_ = std::sqrt(ratios.higher);
        half_power_ = 0.5 * ratios.power;
        half_excess_ = 0.5 * ratios.key_excess;
        freedom_ = ratios.freedom;
    }
    /// At this covariance of the two queries' tokens: for the covariance, 1 and the covariance, and the response's
    /// derivative by it.
    SoftmaxMoments::Ratios::Values with(const QueryRatios& other, double covariance) const {
        const double root = root_ * other.root_, r = root > 0.0 ? covariance / root : 0.0;
        const SoftmaxMoments::Ratios ratios{root_linear_ * other.root_linear_, root_quadratic_ * other.root_quadratic_,
                                            root_higher_ * other.root_higher_, half_power_ + other.half_power_,
                                            half_excess_ + other.half_excess_, freedom_};
        const auto [overlap, response, key, slope] = ratios.at(std::fmax(-1.0, std::fmin(r, 1.0)));
        return {root * overlap, response, root * key, root > 0.0 ? slope / root : 0.0};
    }
    /// The variance of that covariance from pair to pair, nothing for a token with itself.
    double fluctuation(const QueryRatios& other, double covariance, double pair_variance) const {
        const double u = root_ * root_ - covariance, other_u = other.root_ * other.root_ - covariance;
        return pair_variance * std::fmax(u * other_u, 0.0);
    }

private:
    double root_ = 0.0, root_linear_ = 1.0, root_quadratic_ = 0.0, root_higher_ = 0.0, half_power_ = 1.5;
    double half_excess_ = 0.0, freedom_ = 0.0;
};

/// Of each class of queries.
inline std::vector<QueryRatios> query_ratios(const TokenLayout& layout, const TokenKernel& input,
                                             const std::vector<SoftmaxMoments>& softmax) {
    std::vector<QueryRatios> result;
    for (std::size_t i = 0; i < softmax.size(); ++i) result.emplace_back(softmax[i], input[layout.diagonal(i)]);
    return result;
}

/// The keys of one query, as exchangeable ones that scatter alike: with their second moments about their mean, C =
/// K_jj' - (A K)_j - (A K)_j' + (A K A^T), tr(C) and sum C^2. Exchangeable keys are as many as they are. Those
/// that each stand twice are half as many, which is exact; those that resemble their neighbours, as behind causal
/// attention, are fewer.
struct Keys {
    double count = 1.0;     ///< 1 + tr(C)^2 / sum C^2
    double variance = 0.0;  ///< of one component, as an unbiased estimate of the count would have it
};

/// Of each class of queries.
inline std::vector<Keys> keys_of_queries(const TokenLayout& layout, const UniformAverage& average,
                                         const TokenKernel& input, const AttentionState& state) {
    std::vector<Keys> result(layout.classes());
    for (const TokenLayout::Block& block : layout.blocks()) {
        if (!block.within) continue;
        double second_moments = 0.0;  // of the first keys, as many as are counted
        std::size_t counted = 0;
        for (std::size_t i = 0; i < block.size; ++i) {
            while (counted < average.keys(i)) second_moments += input[layout.diagonal(block.row + counted++)];
            const std::size_t e = block.first + i * (block.size + 1);
            const double n = static_cast<double>(counted), variance = second_moments / n - state.mean[e];
            if (!(n > 1.0) || !(variance > 0.0)) continue;
            const double others = std::fmax(std::fmin(variance * variance / state.square[e], n - 1.0), 1.0);
            result[block.row + i] = {1.0 + others, variance * (1.0 + others) / others};
        }
    }
    return result;
}

/// M and T.
inline void average_keys(const TokenLayout& layout, const UniformAverage& average, const TokenKernel& input,
                         AttentionState& state) {
    const std::size_t area = layout.sequence() * layout.sequence();
    state.mean = input;
    state.square = TokenKernel(input.size());
    TokenKernel rows(area), columns(area);
    for (const TokenLayout::Block& block : layout.blocks()) {
        double* const mean = &state.mean[block.first];
        double* const square = &state.square[block.first];
        for (std::size_t e = 0; e < area; ++e) {
            square[e] = mean[e] * mean[e];
            rows[e] = columns[e] = mean[e];
        }
        average.both(mean);
        average.both(square);
        average.left(rows.data());
        average.right(columns.data());
        for (std::size_t e = 0; e < area; ++e) {
            rows[e] *= rows[e];
            columns[e] *= columns[e];
        }
        average.right(rows.data());
        average.left(columns.data());
        for (std::size_t e = 0; e < area; ++e) square[e] += mean[e] * mean[e] - rows[e] - columns[e];
    }
}

inline void attend_blocks(const TokenLayout& layout, const AttentionScales& scales, const TokenKernel& input,
                          SoftmaxTable& table, AttentionState& state) {
    const UniformAverage average(layout.sequence(), scales.causal);
    average_keys(layout, average, input, state);
    const double score = scales.query * scales.key;
    state.softmax.resize(layout.classes());
    state.score_variance = 0.0;
    const std::vector<Keys> keys = keys_of_queries(layout, average, input, state);
    for (std::size_t token = 0; token < layout.classes(); ++token) {
        const double v = score * input[layout.diagonal(token)] * keys[token].variance;
        state.softmax[token] = table.at(keys[token].count, v, scales.head_width());
        state.score_variance = std::fmax(state.score_variance, v);
    }
    state.heads = TokenKernel(input.size());
    const std::vector<QueryRatios> ratios = query_ratios(layout, input, state.softmax);
    state.following = TokenKernel(input.size());
    layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
        double term = score * state.square[e];
        if (term != 0.0) {
            const SoftmaxMoments::Ratios::Values ratio = ratios[i].with(ratios[j], input[e]);
            state.following[e] = scales.value * term * ratio.response;
            term *= ratio.overlap;
        }
        state.heads[e] = scales.value * (state.mean[e] + term);
    });
}

/// Y of one block, from H to its value at the keys.
class Scattered {
public:
    explicit Scattered(std::size_t area) : h_(area), hm_(area), x_(area), x_transposed_(area) {}
    void set(std::size_t e, double h, double mean) {
        h_[e] = x_[e] = x_transposed_[e] = h;
        hm_[e] = h * mean;
    }
    /// @param rows, columns A K and K A^T
    void scatter(const UniformAverage& average, const TokenKernel& rows, const TokenKernel& columns) {
        // X = A^T((A K) o (H A)) and, for X^T, the same from the other side.
        average.right_adjoint(x_.data());
        average.left_adjoint(x_transposed_.data());
        for (std::size_t e = 0; e < x_.size(); ++e) {
            x_[e] *= rows[e];
            x_transposed_[e] *= columns[e];
        }
        average.left_adjoint(x_.data());
        average.right_adjoint(x_transposed_.data());
        average.both_adjoint(h_.data());
        average.both_adjoint(hm_.data());
    }
    double at(std::size_t e, double k) const { return h_[e] * k - x_[e] - x_transposed_[e] + hm_[e]; }

private:
    TokenKernel h_, hm_, x_, x_transposed_;
};

inline TokenKernel attend_blocks_backward(const TokenLayout& layout, const AttentionScales& scales,
                                          const TokenKernel& input, const AttentionState& state,
                                          const TokenKernel& heads_gradient, AttentionSquares& squares) {
    const std::size_t size = layout.sequence(), area = size * size;
    const UniformAverage average(size, scales.causal);
    const double score = scales.query * scales.key;
    const std::vector<QueryRatios> ratios = query_ratios(layout, input, state.softmax);
    TokenKernel gradient(input.size()), rows(area), columns(area), value(area);
    Scattered to_values(area), to_keys(area);
    for (const TokenLayout::Block& block : layout.blocks()) {
        const double* const k = &input[block.first];
        const double* const g = &heads_gradient[block.first];
        const double* const m = &state.mean[block.first];
        for (std::size_t e = 0; e < area; ++e) rows[e] = columns[e] = k[e];  // to be A K and K A^T
        average.left(rows.data());
        average.right(columns.data());

        double wq = 0.0, bq = 0.0;
        for (std::size_t e = 0; e < area; ++e) {
            const std::size_t i = block.row + e / size, j = block.column + e % size;
            const auto [overlap, response, key, slope] = ratios[i].with(ratios[j], k[e]);
            const double fluctuating =
                block.within ? slope * ratios[i].fluctuation(ratios[j], k[e], state.pair_variance) : 0.0;
            const double to_query = scales.key * scales.value * g[e] * state.square[block.first + e];
            const double query = response * to_query;
            wq += query * k[e] + fluctuating * to_query;
            bq += query;
            gradient[block.first + e] = scales.query * query;
            value[e] = g[e];
            to_values.set(e, score * overlap * g[e], m[e]);
            to_keys.set(e, scales.query * scales.value * (key + fluctuating) * g[e], m[e]);
        }
        average.both_adjoint(value.data());
        to_values.scatter(average, rows, columns);
        to_keys.scatter(average, rows, columns);

        double wv = 0.0, wk = 0.0, bv = 0.0;
        for (std::size_t e = 0; e < area; ++e) {
            const double to_value = value[e] + to_values.at(e, k[e]), to_key = to_keys.at(e, k[e]);
            wv += to_value * k[e];
            bv += to_value;
            wk += to_key * k[e];
            gradient[block.first + e] += scales.value * to_value + scales.key * to_key;
        }
        const double entries = scales.width * scales.width * block.multiplicity;
        squares.wq += entries * wq;
        squares.wk += entries * wk;
        squares.wv += entries * wv;
        squares.bq += scales.width * block.multiplicity * bq;
        squares.bv += scales.width * block.multiplicity * bv;
    }
    return gradient;
}

}  // namespace normplace::detail
