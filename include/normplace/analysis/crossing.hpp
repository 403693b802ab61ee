// SPDX-License-Identifier: BSD-3-Clause
//
// Old tokens by new tokens: the tokens whose gradients an optimizer's step is made of, and those of one sequence of the
// next batch, on which the step is then seen. A crossed array has one row for each class of old tokens and one column
// for each class of new ones.
#pragma once

#include <cstddef>

#include <normplace/analysis/token_kernel.hpp>

namespace normplace {

/// One entry for each pair of an old and a new token, row-major.
using CrossedKernel = detail::ShortArray;
/// One entry for each pair of classes of old tokens, summed over the tokens of the two classes, row-major.
using FoldedKernel = detail::ShortArray;

class Crossing {
public:
    /// @param before the old tokens; the new sequence is of their kind
    Crossing(const TokenLayout& before, bool causal)
        : before_(before),
          after_(before.is_exchangeable() ? TokenLayout::exchangeable(1, before.sequence())
                                          : TokenLayout::by_position(1, before.sequence())),
          causal_(causal) {}

    const TokenLayout& before() const { return before_; }
    const TokenLayout& after() const { return after_; }
    std::size_t rows() const { return before_.classes(); }
    std::size_t columns() const { return after_.classes(); }
    CrossedKernel zero() const { return CrossedKernel(rows() * columns()); }

    /// function(entry, class of the old token, class of the new one) for each entry of a crossed array.
    template <class Function>
    void for_each_entry(Function&& function) const {
        for (std::size_t i = 0, entry = 0; i < rows(); ++i)
            for (std::size_t j = 0; j < columns(); ++j) function(entry++, i, j);
    }

    /// Sums a kernel of the old tokens over the tokens of each class.
    FoldedKernel fold(const TokenKernel& kernel) const {
        const std::size_t classes = rows();
        FoldedKernel result(classes * classes);
        if (before_.is_exchangeable()) {
            result[0] = before_.total(kernel);
            return result;
        }
        for (const TokenLayout::Block& block : before_.blocks()) {
            const bool both_orders = block.row != block.column;
            const double weight = both_orders ? 0.5 * block.multiplicity : block.multiplicity;
            for (std::size_t i = 0; i < block.size; ++i)
                for (std::size_t j = 0; j < block.size; ++j) {
                    const double value = weight * kernel[block.first + i * block.size + j];
                    result[(block.row + i) * classes + block.column + j] += value;
                    if (both_orders) result[(block.column + j) * classes + block.row + i] += value;
                }
        }
        return result;
    }

    /// left^T G right, a kernel of the new tokens: entry (j, j') is sum_ii' left_ij G_ii' right_i'j'.
    TokenKernel between(const CrossedKernel& left, const FoldedKernel& g, const CrossedKernel& right) const {
        const std::size_t m = rows(), n = columns();
        if (before_.is_exchangeable()) return TokenKernel(3, left[0] * g[0] * right[0]);
        CrossedKernel pulled(m * n);  // G right
        for (std::size_t i = 0; i < m; ++i) {
            double* const row = &pulled[i * n];
            for (std::size_t k = 0; k < m; ++k) {
                const double weight = g[i * m + k];
                const double* const source = &right[k * n];
                for (std::size_t j = 0; j < n; ++j) row[j] += weight * source[j];
            }
        }
        TokenKernel result(after_.entries());
        for (std::size_t i = 0; i < m; ++i)
            for (std::size_t j = 0; j < n; ++j) {
                const double weight = left[i * n + j];
                const double* const source = &pulled[i * n];
                double* const row = &result[j * n];
                for (std::size_t k = 0; k < n; ++k) row[k] += weight * source[k];
            }
        return result;
    }

    /// A kernel of the new tokens, its rows and columns exchanged.
    TokenKernel transposed(const TokenKernel& kernel) const {
        TokenKernel result = kernel;
        const std::size_t n = columns();
        if (n == 1) return result;
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) result[i * n + j] = kernel[j * n + i];
        return result;
    }

    /// A X, with A the average that an old query takes over its keys when all scores are equal.
    void average_old(CrossedKernel& x) const {
        if (before_.is_exchangeable()) return;
        const std::size_t n = columns(), sequence = before_.sequence();
        for (std::size_t first = 0; first < rows(); first += sequence) {
            for (std::size_t i = 1; i < sequence; ++i)
                for (std::size_t j = 0; j < n; ++j) x[(first + i) * n + j] += x[(first + i - 1) * n + j];
            const double* const all = &x[(first + sequence - 1) * n];
            for (std::size_t i = 0; i < sequence; ++i) {
                const double share = 1.0 / static_cast<double>(causal_ ? i + 1 : sequence);
                if (i + 1 == sequence && !causal_) break;
                for (std::size_t j = 0; j < n; ++j) {
                    double& entry = x[(first + i) * n + j];
                    entry = (causal_ ? entry : all[j]) * share;
                }
            }
            if (!causal_)
                for (std::size_t j = 0; j < n; ++j) x[(first + sequence - 1) * n + j] /= static_cast<double>(sequence);
        }
    }
    /// X A^T, with A the average that a new query takes.
    void average_new(CrossedKernel& x) const {
        if (before_.is_exchangeable()) return;
        const std::size_t n = columns();
        for (std::size_t i = 0; i < rows(); ++i) {
            double* const row = &x[i * n];
            for (std::size_t j = 1; j < n; ++j) row[j] += row[j - 1];
            const double all = row[n - 1] / static_cast<double>(n);
            for (std::size_t j = 0; j < n; ++j) row[j] = causal_ ? row[j] / static_cast<double>(j + 1) : all;
        }
    }
    void average(CrossedKernel& x) const { average_old(x), average_new(x); }

private:
    TokenLayout before_;
    TokenLayout after_;
    bool causal_;
};

}  // namespace normplace
