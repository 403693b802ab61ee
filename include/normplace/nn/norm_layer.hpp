// SPDX-License-Identifier: BSD-3-Clause
//
// What a residual block, and a sublayer with norms inside, need of a norm. norm.hpp and dyt.hpp have the library's;
// dyt.hpp is the one to copy for your own.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <normplace/detail/kernels.hpp>
#include <normplace/nn/parameters.hpp>
#include <normplace/placement/placement.hpp>

namespace normplace {

struct NormOptions {
    std::size_t width = 0;                 ///< D
    double epsilon = 1e-5;                 ///< for those that divide
    bool bias = true;                      ///< for those that have one
    double alpha = 0.5;                    ///< DyT's, at the start
    NormKind kind = NormKind::layer_norm;  ///< of AnyNorm alone: the others are their kind
    double gain = 1.0;                     ///< what the gain multiplies by at the start
};

/// What a norm has: `Scalar`, `Gradients`, `Cache`, a constructor from NormOptions, `forward(x, y, cache)` and
/// `backward(dy, dx, cache, gradients)`, x, y, dy and dx each (B, S, D). Backward sets dx and adds to gradients. One
/// that is made without options has no parameters. Where it is of one of the library's kinds, it has that as `kind`.
template <class N>
concept NormLayer = std::default_initializable<N> && std::constructible_from<N, NormOptions> &&
    std::default_initializable<typename N::Cache> && std::default_initializable<typename N::Gradients> &&
    requires(const N& norm, const Activations<typename N::Scalar>& in, Activations<typename N::Scalar>& out,
             typename N::Cache& cache, typename N::Gradients& gradients) {
    norm.forward(in, out, cache);
    norm.backward(in, out, cache, gradients);
};

/// A norm that takes a sum of terms for its argument and a factor on its gradient, and works in place: y may be x or a
/// term's tensor, and dx may be dy. A block then makes the sum of norm(x + f(x)) where the norm reads it anyway.
/// `SumsTerms` names the class that says so: what derives from it may have replaced `forward` alone.
template <class N>
concept SummingNorm = NormLayer<N> && std::same_as<typename N::SumsTerms, N> &&
    requires(const N& norm, typename N::Scalar factor, const detail::Term<typename N::Scalar>* terms, std::size_t count,
             const detail::Shape<3>& shape, const Activations<typename N::Scalar>& in,
             Activations<typename N::Scalar>& out, typename N::Cache& cache, typename N::Gradients& gradients) {
    norm.forward_sum(terms, count, shape, out, cache);
    norm.backward_sum(in, factor, terms, count, out, cache, gradients);
};

/// Whether the norm is always of one of the library's kinds.
template <class N>
concept NormOfOneKind = requires {
    requires std::same_as<const NormKind, decltype(N::kind)>;
};

/// Whether the norm's kind makes sense with the placement (explain_norm_kind); a norm without a kind does.
template <class P, class N>
constexpr bool explain_norm() {
    if constexpr (NormOfOneKind<N>) return explain_norm_kind<P, N::kind>();
    else return true;
}

}  // namespace normplace
