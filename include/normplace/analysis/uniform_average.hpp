// SPDX-License-Identifier: BSD-3-Clause
//
// The average A that attention takes when all scores are equal: row i has 1/n_i at its n_i keys, all of them or, under
// a causal mask, those up to i. A is never a matrix here: products with it are running sums.
#pragma once

#include <cstddef>
#include <vector>

namespace normplace::detail {

/// Products with the uniform average A of one size x size block, in place, row-major.
class UniformAverage {
public:
    UniformAverage(std::size_t size, bool causal) : size_(size), causal_(causal) {
        for (std::size_t i = 0; i < size; ++i) share_.push_back(1.0 / static_cast<double>(keys(i)));
    }
    /// Of query i.
    std::size_t keys(std::size_t i) const { return causal_ ? i + 1 : size_; }
    void left(double* x) const {  // A X
        sum_rows(x, false);
        for (std::size_t i = 0; i < size_; ++i)
            for (std::size_t j = 0; j < size_; ++j) x[i * size_ + j] *= share_[i];
    }
    void right(double* x) const {  // X A^T
        sum_columns(x, false);
        for (std::size_t i = 0; i < size_; ++i)
            for (std::size_t j = 0; j < size_; ++j) x[i * size_ + j] *= share_[j];
    }
    void left_adjoint(double* x) const {  // A^T X
        for (std::size_t i = 0; i < size_; ++i)
            for (std::size_t j = 0; j < size_; ++j) x[i * size_ + j] *= share_[i];
        sum_rows(x, true);
    }
    void right_adjoint(double* x) const {  // X A
        for (std::size_t i = 0; i < size_; ++i)
            for (std::size_t j = 0; j < size_; ++j) x[i * size_ + j] *= share_[j];
        sum_columns(x, true);
    }
    void both(double* x) const { left(x), right(x); }
    void both_adjoint(double* x) const { left_adjoint(x), right_adjoint(x); }

private:
    // Running sums from the first row or column on, or to the last; the whole sum everywhere without a mask.
    void sum_rows(double* x, bool reversed) const {
        const auto row = [&](std::size_t i) { return x + (reversed ? size_ - 1 - i : i) * size_; };
        for (std::size_t i = 1; i < size_; ++i)
            for (std::size_t j = 0; j < size_; ++j) row(i)[j] += row(i - 1)[j];
        if (causal_) return;
        for (std::size_t i = 0; i + 1 < size_; ++i)
            for (std::size_t j = 0; j < size_; ++j) row(i)[j] = row(size_ - 1)[j];
    }
    void sum_columns(double* x, bool reversed) const {
        for (std::size_t i = 0; i < size_; ++i) {
            double* const row = x + i * size_;
            const auto at = [&](std::size_t j) -> double& { return row[reversed ? size_ - 1 - j : j]; };
            for (std::size_t j = 1; j < size_; ++j) at(j) += at(j - 1);
            const double sum = at(size_ - 1);
            for (std::size_t j = 0; j < size_ && !causal_; ++j) row[j] = sum;
        }
    }

    std::size_t size_;
    bool causal_;
    std::vector<double> share_;
};

}  // namespace normplace::detail
