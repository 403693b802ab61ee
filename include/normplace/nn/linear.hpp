// SPDX-License-Identifier: BSD-3-Clause
//
// y = x W^T + b, the matrix product that every sublayer is made of. It keeps nothing: who calls it holds x until
// backward.
//
// Its products are split over threads by rows of what they write. The bias is laid into y before the product adds to
// it, which costs nothing: a BLAS that is told to overwrite y first fills it with zeros.
#pragma once

#include <algorithm>
#include <tuple>

#include <normplace/detail/blas.hpp>
#include <normplace/detail/check.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/nn/initializer.hpp>
#include <normplace/nn/parameters.hpp>

namespace normplace {

template <class T>
class Linear {
public:
    using Scalar = T;

    struct Gradients {
        Matrix<T> weight;  // (out, in)
        Vector<T> bias;    // (out), or empty
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("weight", self.weight), named("bias", self.bias));
        }
    };

    Matrix<T> weight;  ///< (out, in), 0 until initialized
    Vector<T> bias;    ///< (out), or empty

    Linear() = default;
    /// @throws std::invalid_argument when a width is 0
    Linear(std::size_t in, std::size_t out, bool has_bias = true) {
        detail::require_positive("Linear", "input width", in);
        detail::require_positive("Linear", "output width", out);
        weight.resize({out, in});
        weight.fill(T(0));
        if (has_bias) {
            bias.resize({out});
            bias.fill(T(0));
        }
    }

    std::size_t in() const { return weight.shape()[1]; }
    std::size_t out() const { return weight.shape()[0]; }

    void initialize(const Initializer& initializer, Role role) {
        initializer.draw(weight, role);
        if (bias.size()) bias.fill(T(0));
    }

    /// y (B, S, out) = x (B, S, in) W^T + b
    void forward(const Activations<T>& x, Activations<T>& y) const {
        detail::require_width("Linear", "x", x, in());
        detail::require_distinct("Linear", "x", x, "y", y);
        detail::reshape(y, {x.shape()[0], x.shape()[1], out()});
        const std::size_t rows = detail::row_count(x);
        const detail::SingleThreadedBlas single_threaded_blas;
        detail::parallel_ranges(rows, work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
            forward_rows(x.data(), y.data(), begin, end);
        });
    }

    /// gradients += (dy^T x, sum of dy over tokens); dx = dy W, added to dx when `accumulate`.
    void backward(const Activations<T>& x, const Activations<T>& dy, Activations<T>& dx, Gradients& gradients,
                  bool accumulate = false) const {
        detail::require_distinct("Linear", "dy", dy, "dx", dx);
        detail::require_distinct("Linear", "x", x, "dx", dx);
        if (accumulate) detail::require_shape("Linear", "dx", dx, detail::shape_of(x));
        backward_parameters(x, dy, gradients);
        detail::reshape(dx, detail::shape_of(x));
        const std::size_t rows = detail::row_count(x);
        const detail::SingleThreadedBlas single_threaded_blas;
        detail::parallel_ranges(rows, work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
            backward_rows(dy.data(), dx.data(), begin, end, accumulate);
        });
    }

    /// gradients += (dy^T x, sum of dy over tokens), where dx is not wanted.
    void backward_parameters(const Activations<T>& x, const Activations<T>& dy, Gradients& gradients) const {
        detail::require_width("Linear", "x", x, in());
        detail::require_shape("Linear", "dy", dy, {x.shape()[0], x.shape()[1], out()});
        add_gradients(x.data(), dy.data(), detail::row_count(x), gradients);
    }

    // The same on rows [begin, end) of plain memory, unchecked and on the caller's thread, for sublayers that do
    // several things to rows while these are in the cache.

    void forward_rows(const T* x, T* y, std::size_t begin, std::size_t end) const {
        using detail::Transposed;
        const bool has_bias = bias.size() > 0;
        if (has_bias)
            for (std::size_t r = begin; r < end; ++r) std::copy_n(bias.data(), out(), y + r * out());
        detail::gemm(Transposed::no, Transposed::yes, end - begin, out(), in(), T(1), x + begin * in(), in(),
                     weight.data(), in(), has_bias ? T(1) : T(0), y + begin * out(), out());
    }

    void backward_rows(const T* dy, T* dx, std::size_t begin, std::size_t end, bool accumulate = false) const {
        using detail::Transposed;
        detail::gemm(Transposed::no, Transposed::no, end - begin, in(), out(), T(1), dy + begin * out(), out(),
                     weight.data(), in(), accumulate ? T(1) : T(0), dx + begin * in(), in());
    }

    void require_gradients(const Gradients& gradients) const {
        detail::require_shape("Linear", "gradients.weight", gradients.weight, detail::shape_of(weight));
        detail::require_shape("Linear", "gradients.bias", gradients.bias, detail::shape_of(bias));
    }

    /// Of all rows, split over threads by rows of W.
    void add_gradients(const T* x, const T* dy, std::size_t rows, Gradients& gradients) const {
        require_gradients(gradients);
        if (rows == 0) return;
        const detail::SingleThreadedBlas single_threaded_blas;
        detail::parallel_ranges(out(), work(rows), [&](std::size_t begin, std::size_t end, std::size_t) {
            using detail::Transposed;
            detail::gemm(Transposed::yes, Transposed::no, end - begin, in(), rows, T(1), dy + begin, out(), x, in(),
                         T(1), gradients.weight.data() + begin * in(), in());
            if (bias.size()) NORMPLACE_KERNEL(add_column_sums, dy, rows, out(), gradients.bias.data(), begin, end);
        });
    }

    /// What one of its products is worth (parallel.hpp).
    double work(std::size_t rows) const { return detail::product_work(rows, in(), out()); }
};

}  // namespace normplace
