// SPDX-License-Identifier: BSD-3-Clause
//
// y = x W^T + b, the matrix product that every sublayer is made of. It keeps nothing: who calls it holds x until
// backward.
#pragma once

#include <algorithm>
#include <tuple>

#include <normplace/detail/blas.hpp>
#include <normplace/detail/check.hpp>
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
        using detail::Transposed;
        detail::gemm(Transposed::no, Transposed::yes, rows, out(), in(), T(1), x.data(), in(), weight.data(), in(),
                     T(0), y.data(), out());
        if (bias.size() == 0) return;
        const T* b = bias.data();
        for (std::size_t r = 0; r < rows; ++r) {
            T* row = y.data() + r * out();
            for (std::size_t o = 0; o < out(); ++o) row[o] += b[o];
        }
    }

    /// gradients += (dy^T x, sum of dy over tokens); dx = dy W, added to dx when `accumulate`.
    void backward(const Activations<T>& x, const Activations<T>& dy, Activations<T>& dx, Gradients& gradients,
                  bool accumulate = false) const {
        detail::require_distinct("Linear", "dy", dy, "dx", dx);
        detail::require_distinct("Linear", "x", x, "dx", dx);
        if (accumulate) detail::require_shape("Linear", "dx", dx, detail::shape_of(x));
        backward_parameters(x, dy, gradients);
        detail::reshape(dx, detail::shape_of(x));
        using detail::Transposed;
        detail::gemm(Transposed::no, Transposed::no, detail::row_count(x), in(), out(), T(1), dy.data(), out(),
                     weight.data(), in(), accumulate ? T(1) : T(0), dx.data(), in());
    }

    /// gradients += (dy^T x, sum of dy over tokens), where dx is not wanted.
    void backward_parameters(const Activations<T>& x, const Activations<T>& dy, Gradients& gradients) const {
        detail::require_width("Linear", "x", x, in());
        detail::require_shape("Linear", "dy", dy, {x.shape()[0], x.shape()[1], out()});
        detail::require_shape("Linear", "gradients.weight", gradients.weight, detail::shape_of(weight));
        detail::require_shape("Linear", "gradients.bias", gradients.bias, detail::shape_of(bias));
        const std::size_t rows = detail::row_count(x);
        using detail::Transposed;
        if (rows == 0) return;
        detail::gemm(Transposed::yes, Transposed::no, out(), in(), rows, T(1), dy.data(), out(), x.data(), in(), T(1),
                     gradients.weight.data(), in());
        if (bias.size() == 0) return;
        T* db = gradients.bias.data();
        for (std::size_t r = 0; r < rows; ++r) {
            const T* row = dy.data() + r * out();
            for (std::size_t o = 0; o < out(); ++o) db[o] += row[o];
        }
    }
};

}  // namespace normplace
