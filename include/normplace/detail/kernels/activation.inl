// SPDX-License-Identifier: BSD-3-Clause
//
// The rectifier, and GELU in float: y = u Phi(u), with the normal distribution function Phi to 2 units of float's last
// place. With z = |u| and t = 1 / (1 + 0.35 z), Phi(-z) = exp(-z^2/2) t Q(t), where Q is the polynomial of degree 8
// that is best in relative error (3e-8) for z up to 14.

/// y = max(u, 0); NaN stays NaN. y may be u.
template <class T>
void rectify(const T* u, T* y, std::size_t count) {
    std::size_t i = 0;
    for (const std::size_t head = std::min(count, head_of(y)); i < head; ++i) y[i] = u[i] < T(0) ? T(0) : u[i];
    for (; i + lanes<T> <= count; i += lanes<T>) {
        const Pack<T> p = load(u + i);
        store(y + i, p < T(0) ? Pack<T>{} : p);
    }
    for (; i < count; ++i) y[i] = u[i] < T(0) ? T(0) : u[i];
}

/// du = dy where y > 0, else 0, with y the rectifier's output. du may be y or dy.
template <class T>
void rectify_backward(const T* y, const T* dy, T* du, std::size_t count) {
    std::size_t i = 0;
    for (const std::size_t head = std::min(count, head_of(du)); i < head; ++i) du[i] = y[i] > T(0) ? dy[i] : T(0);
    for (; i + lanes<T> <= count; i += lanes<T>) store(du + i, load(y + i) > T(0) ? load(dy + i) : Pack<T>{});
    for (; i < count; ++i) du[i] = y[i] > T(0) ? dy[i] : T(0);
}

/// Phi(u), and the density of the normal distribution at u.
NORMPLACE_INLINE Pack<float> normal_distribution(Pack<float> u, Pack<float>& density) {
    constexpr float coefficients[] = {1.439717144e-1f, -2.557142867e-1f, 1.591741953e-1f, -2.310985797e-2f,
                                      1.055080133e-1f, 1.198328654e-1f,  1.398618700e-1f, 1.396214043e-1f};
    const Pack<float> z = u < 0.0f ? -u : u;
    const Pack<float> e = exp<float>(-0.5f * u * u), t = 1.0f / (1.0f + 0.35f * z);
    Pack<float> q = all(-2.914593390e-2f);
    for (const float c : coefficients) q = q * t + c;
    const Pack<float> tail = e * t * q;
    density = 0.39894228040143267794f * e;
    return u < 0.0f ? tail : 1.0f - tail;
}
NORMPLACE_INLINE Pack<float> gelu(Pack<float> u) {
    Pack<float> density;
    return u * normal_distribution(u, density);
}
NORMPLACE_INLINE Pack<float> gelu_derivative(Pack<float> u) {
    Pack<float> density;
    const Pack<float> distribution = normal_distribution(u, density);
    return distribution + u * density;
}

/// y = u Phi(u). y may be u.
inline void gelu_rows(const float* u, float* y, std::size_t count) {
    std::size_t i = 0;
    for (; i + lanes<float> <= count; i += lanes<float>) store(y + i, gelu(load(u + i)));
    if (i < count) store_end(y + i, gelu(load_end(u + i, count - i)), count - i);
}

/// du = (Phi(u) + u phi(u)) dy. du may be u or dy.
inline void gelu_backward_rows(const float* u, const float* dy, float* du, std::size_t count) {
    std::size_t i = 0;
    for (; i + lanes<float> <= count; i += lanes<float>) store(du + i, gelu_derivative(load(u + i)) * load(dy + i));
    if (i < count)
        store_end(du + i, gelu_derivative(load_end(u + i, count - i)) * load_end(dy + i, count - i), count - i);
}
