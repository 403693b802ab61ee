// SPDX-License-Identifier: BSD-3-Clause
//
// The readout: logits = x U^T, where U (V, D) is a matrix of its own, or the token embedding (weight tying; Press and
// Wolf 2017, arXiv:1608.05859).
#pragma once

#include <normplace/nn/embedding.hpp>
#include <normplace/nn/linear.hpp>

namespace normplace {

template <class T>
class Readout {
public:
    using Scalar = T;
    using Gradients = typename Linear<T>::Gradients;  // empty when tied

    Matrix<T> weight;  ///< U (V, D), or empty when tied
    Vector<T> bias;    ///< always empty

    Readout() = default;
    /// @throws std::invalid_argument when the width or the vocabulary is 0
    Readout(std::size_t width, std::size_t vocabulary, bool tied) {
        Linear<T> own(width, vocabulary, false);
        if (!tied) weight = std::move(own.weight);
    }

    bool tied() const { return weight.size() == 0; }

    void initialize(const Initializer& initializer) {
        if (!tied()) initializer.draw(weight, Role::readout);
    }

    /// logits (B, S, V) of x (B, S, D)
    void forward(const Activations<T>& x, const Embedding<T>& embedding, Activations<T>& logits) const {
        using detail::Transposed;
        const Matrix<T>& u = matrix(embedding);
        const std::size_t rows = detail::row_count(x), d = u.shape()[1], v = u.shape()[0];
        detail::require_width("Readout", "x", x, d);
        detail::reshape(logits, {x.shape()[0], x.shape()[1], v});
        over(rows, rows, u, [&](std::size_t begin, std::size_t end) {
            detail::gemm(Transposed::no, Transposed::yes, end - begin, v, d, T(1), x.data() + begin * d, d, u.data(), d,
                         T(0), logits.data() + begin * v, v);
        });
    }

    /// Sets dx; adds dlogits^T x to the gradient of U, wherever that is.
    void backward(const Activations<T>& x, const Activations<T>& dlogits, const Embedding<T>& embedding,
                  Activations<T>& dx, Gradients& gradients,
                  typename Embedding<T>::Gradients& embedding_gradients) const {
        using detail::Transposed;
        const Matrix<T>& u = matrix(embedding);
        Matrix<T>& du = tied() ? embedding_gradients.token.weight : gradients.weight;
        const std::size_t rows = detail::row_count(x), d = u.shape()[1], v = u.shape()[0];
        detail::require_width("Readout", "x", x, d);
        detail::require_shape("Readout", "dlogits", dlogits, {x.shape()[0], x.shape()[1], v});
        detail::require_shape("Readout", "gradients", du, detail::shape_of(u));
        detail::require_distinct("Readout", "x", x, "dx", dx);
        detail::reshape(dx, detail::shape_of(x));
        over(rows, rows, u, [&](std::size_t begin, std::size_t end) {
            detail::gemm(Transposed::no, Transposed::no, end - begin, d, v, T(1), dlogits.data() + begin * v, v,
                         u.data(), d, T(0), dx.data() + begin * d, d);
        });
        over(v, rows, u, [&](std::size_t begin, std::size_t end) {
            detail::gemm(Transposed::yes, Transposed::no, end - begin, d, rows, T(1), dlogits.data() + begin, v,
                         x.data(), d, T(1), du.data() + begin * d, d);
        });
    }

private:
    const Matrix<T>& matrix(const Embedding<T>& embedding) const { return tied() ? embedding.token.weight : weight; }
    /// body(begin, end) over `count` rows of the result of one product with `rows` tokens.
    template <class Body>
    static void over(std::size_t count, std::size_t rows, const Matrix<T>& u, const Body& body) {
        if (rows == 0) return;
        const detail::SingleThreadedBlas single_threaded_blas;
        detail::parallel_ranges(count, detail::product_work(rows, u.shape()[1], u.shape()[0]),
                                [&](std::size_t begin, std::size_t end, std::size_t) { body(begin, end); });
    }
};

}  // namespace normplace
