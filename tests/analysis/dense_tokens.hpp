// SPDX-License-Identifier: BSD-3-Clause
//
// A layout's kernels as dense matrices over all tokens, for tests that compute something by brute force.
#pragma once

#include <cmath>
#include <cstddef>
#include <normplace/analysis/crossing.hpp>
#include <vector>

namespace dense_tokens {

using Dense = std::vector<std::vector<double>>;

inline Dense zeros(std::size_t rows, std::size_t columns) { return Dense(rows, std::vector<double>(columns, 0.0)); }

inline Dense product(const Dense& x, const Dense& y) {
    Dense result = zeros(x.size(), y[0].size());
    for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t k = 0; k < y.size(); ++k)
            for (std::size_t j = 0; j < y[0].size(); ++j) result[i][j] += x[i][k] * y[k][j];
    return result;
}

inline Dense transposed(const Dense& x) {
    Dense result = zeros(x[0].size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t j = 0; j < x[0].size(); ++j) result[j][i] = x[i][j];
    return result;
}

inline double trace(const Dense& x) {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i][i];
    return sum;
}

/// The average that attention takes when all scores are equal: block-diagonal, a block for each sequence.
inline Dense average_matrix(std::size_t batch, std::size_t sequence, bool causal) {
    Dense result = zeros(batch * sequence, batch * sequence);
    for (std::size_t i = 0; i < result.size(); ++i)
        for (std::size_t j = 0; j < result.size(); ++j) {
            const std::size_t keys = causal ? i % sequence + 1 : sequence;
            if (i / sequence == j / sequence && j % sequence < keys) result[i][j] = 1.0 / static_cast<double>(keys);
        }
    return result;
}

inline std::size_t class_of(const normplace::TokenLayout& layout, std::size_t token) {
    return layout.is_exchangeable() ? 0 : layout.classes() == layout.sequence() ? token % layout.sequence() : token;
}

/// Of all pairs of the batch's tokens.
inline Dense expand(const normplace::TokenLayout& layout, const normplace::TokenKernel& kernel) {
    const std::size_t s = layout.sequence(), tokens = layout.batch() * s;
    const auto at = [&](std::size_t i, std::size_t j) {
        const std::size_t p = i % s, q = j % s, b = i / s, c = j / s;
        if (layout.is_exchangeable()) return kernel[i == j ? 0 : b == c ? 1 : 2];
        if (layout.classes() == s) return kernel[(b == c ? 0 : s * s) + p * s + q];
        for (const auto& block : layout.blocks()) {
            if (block.row == b * s && block.column == c * s) return kernel[block.first + p * s + q];
            if (block.row == c * s && block.column == b * s) return kernel[block.first + q * s + p];
        }
        return 0.0;
    };
    Dense result = zeros(tokens, tokens);
    for (std::size_t i = 0; i < tokens; ++i)
        for (std::size_t j = 0; j < tokens; ++j) result[i][j] = at(i, j);
    return result;
}

/// Of all pairs of an old and a new token.
inline Dense expand_crossed(const normplace::Crossing& crossing, const normplace::CrossedKernel& kernel) {
    const normplace::TokenLayout& before = crossing.before();
    Dense result = zeros(before.batch() * before.sequence(), before.sequence());
    for (std::size_t i = 0; i < result.size(); ++i)
        for (std::size_t j = 0; j < before.sequence(); ++j)
            result[i][j] = kernel[class_of(before, i) * crossing.columns() + (crossing.columns() == 1 ? 0 : j)];
    return result;
}

/// Numbers without a pattern, from -1 to 1.
inline double number(std::size_t i) { return std::sin(1.0 + 12.9898 * static_cast<double>(i)); }

/// A covariance without a pattern, of token vectors that share what the layout says that they share.
inline normplace::TokenKernel some_kernel(const normplace::TokenLayout& layout, std::size_t seed) {
    const std::size_t s = layout.sequence();
    normplace::TokenKernel result(layout.entries());
    if (layout.is_exchangeable()) return {2.0 + number(seed), 0.6 + 0.3 * number(seed + 1), 0.2 * number(seed + 2)};
    const auto component = [&](std::size_t token, std::size_t k) { return number(seed + 101 * token + k); };
    for (const auto& block : layout.blocks()) {
        const bool by_position = layout.classes() == s;
        for (std::size_t i = 0; i < s; ++i)
            for (std::size_t j = 0; j < s; ++j) {
                double& entry = result[block.first + i * s + j];
                for (std::size_t k = 0; k < (by_position && !block.within ? 3 : 6); ++k)
                    entry += component(block.row + i, k) * component(block.column + j, k) / 3.0;
                if (block.within && i == j) entry += 0.5;
            }
    }
    return result;
}

}  // namespace dense_tokens
