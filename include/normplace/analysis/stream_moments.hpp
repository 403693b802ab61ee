// SPDX-License-Identifier: BSD-3-Clause
//
// The residual streams in moments: covariances between tokens of one stream and of two, for activations or for
// gradients, and how they fluctuate. Most placements have one stream, which is kept without an allocation.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <normplace/analysis/fluctuation.hpp>
#include <normplace/analysis/token_kernel.hpp>

namespace normplace {

namespace detail {

/// A vector whose first element stands in place.
template <class T>
class OneOrMore {
public:
    explicit OneOrMore(std::size_t size = 1) : others_(size - 1) {}
    std::size_t size() const { return others_.size() + 1; }
    T& operator[](std::size_t i) { return i ? others_[i - 1] : first_; }
    const T& operator[](std::size_t i) const { return i ? others_[i - 1] : first_; }

private:
    T first_{};
    std::vector<T> others_;
};

}  // namespace detail

/// For n streams: kernels(s, t)[entry of i, j] = E s_i t_j per component, so the order matters where tokens differ.
class StreamKernels {
public:
    explicit StreamKernels(std::size_t streams = 1) : streams_(streams), kernels_(streams * streams) {}
    StreamKernels(TokenKernel only) { kernels_[0] = std::move(only); }  // NOLINT: one stream is the usual case

    std::size_t streams() const { return streams_; }
    TokenKernel& operator()(std::size_t s, std::size_t t) { return kernels_[s * streams_ + t]; }
    const TokenKernel& operator()(std::size_t s, std::size_t t) const { return kernels_[s * streams_ + t]; }
    /// Of one stream by itself.
    const TokenKernel& operator[](std::size_t s) const { return (*this)(s, s); }

private:
    std::size_t streams_ = 1;
    detail::OneOrMore<TokenKernel> kernels_;
};

/// For each stream.
using StreamFluctuations = detail::OneOrMore<Fluctuation>;

}  // namespace normplace
