// SPDX-License-Identifier: BSD-3-Clause
//
// Linear combinations of random vectors, token by token: sum_p a_p(i) X_p(i) for token i, with factors a_p that are the
// same for all tokens of a class. Covariances follow from those of the X_p: E e_i e'_j = sum_pq a_p(i) a'_q(j) E X_p(i)
// X_q(j). Inside a block (moments.hpp) every expression is one, of the streams and the sublayer's output, and so is
// every gradient, of those at the block's results and at the sublayer's input.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <normplace/analysis/stream_moments.hpp>
#include <normplace/analysis/token_kernel.hpp>

namespace normplace {

/// The factors a_p. One without entries stands for 0.
class TokenCombination {
public:
    /// 0.
    explicit TokenCombination(std::size_t sources = 0) : others_(sources > here ? sources - here : 0) {}
    PerToken& operator[](std::size_t p) { return p < here ? first_[p] : others_[p - here]; }
    const PerToken& operator[](std::size_t p) const { return p < here ? first_[p] : others_[p - here]; }
    std::size_t size() const { return here + others_.size(); }

    /// Adds factor times another of the same sources.
    void add(double factor, const TokenCombination& other) {
        for (std::size_t p = 0; p < size(); ++p) {
            const PerToken& what = other[p];
            PerToken& to = (*this)[p];
            if (to.size() == 0) to = PerToken(what.size());
            for (std::size_t i = 0; i < what.size(); ++i) to[i] += factor * what[i];
        }
    }
    void scale(double factor) {
        if (factor != 1.0) change([&](double& a, std::size_t) { a *= factor; });
    }
    /// function(a_p(i), i) for every factor that is not 0 throughout.
    template <class Function>
    void change(const Function& function) {
        for (std::size_t p = 0; p < size(); ++p) {
            PerToken& factors = (*this)[p];
            for (std::size_t i = 0; i < factors.size(); ++i) function(factors[i], i);
        }
    }

private:
    static constexpr std::size_t here = 2;  // most blocks have one stream and one sublayer: no allocation
    std::array<PerToken, here> first_;
    std::vector<PerToken> others_;
};

/// The covariances of the X_p: the first of them covary with one another, the rest with themselves alone.
class TokenSources {
public:
    StreamKernels together;
    std::vector<TokenKernel> apart;  ///< one that nothing contains yet may be empty

    explicit TokenSources(const TokenLayout& layout) : layout_(layout) {}

    const TokenLayout& layout() const { return layout_; }
    std::size_t size() const { return together.streams() + apart.size(); }
    /// X_p itself.
    TokenCombination only(std::size_t p) const {
        TokenCombination result(size());
        result[p] = PerToken(layout_.classes(), 1.0);
        return result;
    }

    TokenKernel between(const TokenCombination& a, const TokenCombination& b) const {
        TokenKernel result(layout_.entries());
        for_each_pair(a, b, [&](const PerToken& left, const PerToken& right, const TokenKernel& kernel) {
            layout_.for_each_entry(
                [&](std::size_t e, std::size_t i, std::size_t j) { result[e] += left[i] * right[j] * kernel[e]; });
        });
        return result;
    }
    /// Second moments of each class of tokens: `between`'s diagonal, without the rest.
    PerToken squares(const TokenCombination& a) const {
        PerToken result(layout_.classes());
        for_each_pair(a, a, [&](const PerToken& left, const PerToken& right, const TokenKernel& kernel) {
            for (std::size_t i = 0; i < result.size(); ++i)
                result[i] += left[i] * right[i] * kernel[layout_.diagonal(i)];
        });
        return result;
    }

private:
    template <class Function>
    void for_each_pair(const TokenCombination& a, const TokenCombination& b, const Function& function) const {
        const auto pair = [&](std::size_t p, std::size_t q, const TokenKernel& kernel) {
            if (a[p].size() > 0 && b[q].size() > 0) function(a[p], b[q], kernel);
        };
        const std::size_t streams = together.streams();
        for (std::size_t s = 0; s < streams; ++s)
            for (std::size_t t = 0; t < streams; ++t) pair(s, t, together(s, t));
        for (std::size_t p = 0; p < apart.size(); ++p) pair(streams + p, streams + p, apart[p]);
    }

    const TokenLayout& layout_;
};

}  // namespace normplace
